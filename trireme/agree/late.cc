// Late work is left out: a clock closes with the first ceil(fraction * W) pushes, whose mean makes the update
// (Chen, Monga, Bengio, Jozefowicz 2016: W workers of which W - ceil(fraction * W) are backups; DistBelief
// and Project Adam, Chilimbi et al. 2014, end an epoch with 75 % of the replicas in this manner). Pushes for
// a closed clock are dropped and counted by the servers. The worker that was late reads the present weights
// and goes on with the clock that is open, so it is as likely to be in time as the others.
#include "trireme/agree/mechanism/push_pull.h"
#include "trireme/agree/server_rules.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_late(const RuleContext& context) {
  PushPullOptions options;
  options.staleness = PushPullOptions::Staleness::kSkipped;
  options.jumps = true;
  return make_push_pull(context, options);
}

}  // namespace trireme::agree
