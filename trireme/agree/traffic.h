// What a rule sends, so that a plan can be priced without running it.
#pragma once

#include "trireme/agree/agree.h"
#include "trireme/cost/traffic.h"

namespace trireme::agree {

// As the row's own function has it, with what the row says beside it.
cost::Traffic traffic_of(const AgreementRow& rule, const RuleOptions& options, int num_workers);

// ---- For rows: what most rules have in common.
// A sum or mean over all workers every `period` steps; 0: as rare as keeps it cheap.
cost::Traffic every_period(const OptionValues& options);
// A push and a pull in every step.
cost::Traffic to_servers(const OptionValues& options, int num_workers);
// A change that goes to all others, who add what comes; nobody waits for it to arrive.
cost::Traffic to_all_peers(int num_workers);
// Steps between two exchanges, at least 1.
double steps_between(const OptionValues& options, const OptionSpec& spec);

}  // namespace trireme::agree
