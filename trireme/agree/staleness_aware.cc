// Staleness-aware asynchronous SGD and soft synchronisation (Zhang, Gupta, Lian, Liu 2016).
//
// staleness-aware: every push is an update at once, with the rate divided by its staleness tau, the updates
// made since the weights that the gradient was computed on were read:
//   w <- w - lr / max(1, tau) g
// soft: servers collect c gradients, whoever they are of, and make one update of their mean (n-softsync with
// c = W / n), at the rate lr / n, since n is their mean staleness.
// The servers do both; a worker says with every push which version it had read.
#include "trireme/agree/mechanism/push_pull.h"
#include "trireme/agree/mechanism/server_updates.h"
#include "trireme/agree/server_rules.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_staleness_aware(const RuleContext& context) {
  PushPullOptions options;
  options.staleness = PushPullOptions::Staleness::kOthers;
  return make_push_pull(context, options);
}

std::unique_ptr<Agreement> make_soft(const RuleContext& context) {
  PushPullOptions options;
  options.staleness = PushPullOptions::Staleness::kUpdates;
  options.scale = static_cast<float>(gather_of(context.options, context.num_workers)) /
                  static_cast<float>(context.num_workers);
  return make_push_pull(context, options);
}

}  // namespace trireme::agree
