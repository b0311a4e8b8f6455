// Stale synchronous parallel (Ho et al. 2013): updates are made as they come, and a worker that is about to
// compute clock c waits until the updates of all workers with clocks below c - s are in. It may see any newer
// ones ("best effort"), and sees all of its own, because its pull follows its push on the same way.
//
// Each of W workers changes the model by 1/W of its gradient, so that one clock of all goes as far as a step
// of bsp-server; with s = 0 it is that step, to the bit.
#include "trireme/agree/mechanism/push_pull.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {

namespace {

constexpr OptionSpec kOptions[] = {kStaleness};

std::unique_ptr<Agreement> make(const RuleContext& context) {
  PushPullOptions options;
  // With s = 0 the servers take the mean themselves.
  if (context.options.own.integer(kStaleness) > 0)
    options.scale = 1.0F / static_cast<float>(context.num_workers);
  return make_push_pull(context, options);
}

cost::Traffic traffic(const OptionValues& options, int num_workers) {
  cost::Traffic t = to_servers(options, num_workers);
  t.slack = options.integer(kStaleness) > 0;
  return t;
}

}  // namespace

extern const AgreementRow kSsp{
    .name = "ssp",
    .doc = "Servers apply gradients as they come; the fastest worker is at most `staleness` clocks ahead.",
    .paper =
        "Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, "
        "NIPS 2013",
    .pace = Pace::kBound,
    .needs_server = true,
    .updates_here = false,
    .consistency = "ssp",
    .options = kOptions,
    .make = make,
    .traffic = traffic,
    .serve = [](const OptionValues& options, int,
                server::ServerOptions& servers) { servers.clocks.staleness = options.integer(kStaleness); },
    .applies_old_updates = [](const OptionValues& options) { return options.integer(kStaleness) != 0; },
    .no_codec = nullptr};

}  // namespace trireme::agree
