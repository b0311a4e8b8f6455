#include "trireme/agree/traffic.h"

#include <algorithm>

#include "trireme/agree/mechanism/period.h"

namespace trireme::agree {
namespace {

using Path = cost::Traffic::Path;

bool reads(const AgreementRow& rule, std::string_view key) {
  return std::any_of(rule.keys.begin(), rule.keys.end(),
                     [&](const char* own) { return std::string_view(own) == key; });
}

double steps(std::int64_t n) { return static_cast<double>(std::max<std::int64_t>(1, n)); }

void to_servers(const AgreementRow& rule, const RuleOptions& o, cost::Traffic& t) {
  t.path = Path::kServers;
  if (reads(rule, "period")) {
    t.every = steps(o.period);
    t.hidden = true;   // travels while the step computes
    t.passes = 2 + 4;  // the copy that is sent, the worker's own line
  }
  // A push and a fetch cost the same; each at its own interval.
  if (reads(rule, "push_steps")) t.every = 2 / (1 / steps(o.push_steps) + 1 / steps(o.fetch_steps));
  if (reads(rule, "in_flight") && o.in_flight > 1) t.hidden = true;
  if (rule.completes_with_fraction) t.quorum = o.fraction;
  t.slack = reads(rule, "staleness") && o.staleness > 0;
}

void to_peers(const AgreementRow& rule, const RuleOptions& o, int num_workers, cost::Traffic& t) {
  t.path = Path::kPeers;
  t.hidden = true;
  t.skips = t.alone;
  t.copies = num_workers - 1;
  t.passes = 4 + 6 + 3 * t.copies;  // the change, the sum taken in, and what came added to it
  if (reads(rule, "neighbors")) {
    t.copies = std::min(t.copies, o.neighbours == "ring" ? 2.0 : 1.0);
    t.every = steps(o.period);
    t.passes = 2 + 3 * t.copies;
  }
  if (reads(rule, "push_steps")) t.every = steps(o.push_steps);
}

}  // namespace

cost::Traffic traffic_of(const AgreementRow& rule, const RuleOptions& o, int num_workers) {
  cost::Traffic t;
  t.alone = rule.pace == Pace::kFree;
  t.updates_here = rule.updates_here;
  if (num_workers < 2 && !rule.needs_server) return t;
  if (rule.needs_server) {
    to_servers(rule, o, t);
  } else if (rule.pace == Pace::kStep) {
    t.path = Path::kAllreduce;
    t.gradients = true;
  } else if (rule.pace == Pace::kPeriod) {
    if (!reads(rule, "period")) return t;
    t.path = Path::kAllreduce;
    t.every = o.period == 0 ? 0 : steps(o.period);
    t.share = AutoPeriod::kExchangeShare;
    if (reads(rule, "elasticity")) {
      t.hidden = true;       // the centre moves while the workers compute on
      t.passes = 3 + 3 + 3;  // the difference, the force, the centre
    }
  } else if (!rule.shares_weights) {
    to_peers(rule, o, num_workers, t);
  }
  return t;
}

}  // namespace trireme::agree
