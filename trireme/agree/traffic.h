// What a rule sends, so that a plan can be priced without running it.
#pragma once

#include "trireme/agree/agree.h"
#include "trireme/cost/traffic.h"

namespace trireme::agree {

cost::Traffic traffic_of(const AgreementRow& rule, const RuleOptions& options, int num_workers);

}  // namespace trireme::agree
