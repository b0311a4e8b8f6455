// Stale synchronous parallel (Ho et al. 2013): updates are made as they come, and a worker that is about to
// compute clock c waits until the updates of all workers with clocks below c - s are in. It may see any newer
// ones ("best effort"), and sees all of its own, because its pull follows its push on the same way.
//
// Of W workers each changes the model by 1/W of its gradient, so that one clock of all goes as far as a step
// of bsp-server; with s = 0 it is that step, to the bit.
#include "trireme/agree/mechanism/push_pull.h"
#include "trireme/agree/server_rules.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_ssp(const RuleContext& context) {
  PushPullOptions options;
  // With s = 0 the servers take the mean themselves.
  if (context.options.staleness > 0) options.scale = 1.0F / static_cast<float>(context.num_workers);
  return make_push_pull(context, options);
}

}  // namespace trireme::agree
