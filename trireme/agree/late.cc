// Late work is left out: a clock closes with the first ceil(fraction * W) pushes, whose mean makes the update
// (Chen, Monga, Bengio, Jozefowicz 2016: W workers of which W - ceil(fraction * W) are backups; DistBelief
// and Project Adam, Chilimbi et al. 2014, end an epoch with 75 % of the replicas in this manner). Pushes for
// a closed clock are dropped and counted by the servers. The worker that was late reads the present weights
// and goes on with the clock that is open, so it is as likely to be in time as the others.
#include "trireme/agree/mechanism/push_pull.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {

namespace {

constexpr OptionSpec kFraction{
    .name = "fraction",
    .default_value = 0.75,
    .doc = "Fraction of the workers that completes a step (default 0.75).",
    .range = {.least = 0, .most = 1, .above_least = true, .words = "above 0 and at most 1"}};
constexpr OptionSpec kOptions[] = {kFraction};

std::unique_ptr<Agreement> make(const RuleContext& context) {
  PushPullOptions options;
  options.staleness = PushPullOptions::Staleness::kSkipped;
  options.jumps = true;
  return make_push_pull(context, options);
}

}  // namespace

extern const AgreementRow kLate{
    .name = "late",
    .doc = "A clock closes with `fraction` of the workers; late gradients are dropped.",
    .paper =
        "Chen, Monga, Bengio, Jozefowicz, Revisiting distributed synchronous SGD, 2016; Chilimbi et al., "
        "Project Adam, OSDI 2014",
    .pace = Pace::kBound,
    .needs_server = true,
    .updates_here = false,
    .consistency = "late",
    .options = kOptions,
    .make = make,
    .traffic = to_servers,
    .serve = [](const OptionValues& options, int,
                server::ServerOptions& servers) { servers.clocks.fraction = options.number(kFraction); },
    .quorum = [](const OptionValues& options) { return options.number(kFraction); },
    .no_codec = nullptr};

}  // namespace trireme::agree
