#include "trireme/agree/traffic.h"

#include <algorithm>

#include "trireme/agree/mechanism/period.h"

namespace trireme::agree {

using Path = cost::Traffic::Path;

double steps_between(const OptionValues& options, const OptionSpec& spec) {
  return static_cast<double>(std::max<std::int64_t>(1, options.integer(spec)));
}

cost::Traffic every_period(const OptionValues& options) {
  cost::Traffic t;
  t.path = Path::kAllreduce;
  t.every = options.integer(kPeriod) == 0 ? 0 : steps_between(options, kPeriod);
  t.share = AutoPeriod::kExchangeShare;
  return t;
}

cost::Traffic to_servers(const OptionValues&, int) {
  cost::Traffic t;
  t.path = Path::kServers;
  return t;
}

cost::Traffic to_all_peers(int num_workers) {
  cost::Traffic t;
  t.path = Path::kPeers;
  t.hidden = true;
  t.copies = num_workers - 1;
  t.passes = 4 + 6 + 3 * t.copies;  // the change, the sum taken in, and what came added to it
  return t;
}

cost::Traffic traffic_of(const AgreementRow& rule, const RuleOptions& options, int num_workers) {
  const bool sends = rule.traffic != nullptr && (num_workers > 1 || rule.needs_server);
  cost::Traffic t = sends ? rule.traffic(options.own, num_workers) : cost::Traffic();
  t.alone = rule.pace == Pace::kFree;
  t.updates_here = rule.updates_here;
  if (rule.quorum != nullptr) t.quorum = rule.quorum(options.own);
  return t;
}

}  // namespace trireme::agree
