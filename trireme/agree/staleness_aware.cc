// Staleness-aware asynchronous SGD and soft synchronisation (Zhang, Gupta, Lian, Liu 2016).
//
// staleness-aware: every push is an update at once, with the rate divided by its staleness tau, the updates
// made since the weights that the gradient was computed on were read:
//   w <- w - lr / max(1, tau) g
// soft: servers collect c gradients, whoever they are of, and make one update of their mean (n-softsync with
// c = W / n), at the rate lr / n, since n is their mean staleness.
// The servers do both; a worker says with every push which version it had read.
#include "trireme/agree/mechanism/push_pull.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {

namespace {

constexpr OptionSpec kGather{.name = "gather",
                             .default_value = 0,
                             .doc =
                                 "Number of pushes that the servers combine into one update. Default, or "
                                 "0: half of the workers."};
constexpr OptionSpec kSoftOptions[] = {kGather};

std::optional<OptionFault> check_soft(const OptionValues& options, int num_workers) {
  const std::int64_t gather = options.integer(kGather);
  if (gather >= 0 && gather <= num_workers) return std::nullopt;
  return OptionFault{kGather.name, fmt::format("between 0 and the number of workers, {}", num_workers)};
}

// Pushes that make one update: as given, or half of the workers.
int gather_of(const OptionValues& options, int num_workers) {
  const std::int64_t gather = options.integer(kGather);
  return gather > 0 ? static_cast<int>(gather) : (num_workers + 1) / 2;
}

std::unique_ptr<Agreement> make_staleness_aware(const RuleContext& context) {
  PushPullOptions options;
  options.staleness = PushPullOptions::Staleness::kOthers;
  return make_push_pull(context, options);
}

std::unique_ptr<Agreement> make_soft(const RuleContext& context) {
  PushPullOptions options;
  options.staleness = PushPullOptions::Staleness::kUpdates;
  options.scale = static_cast<float>(gather_of(context.options.own, context.num_workers)) /
                  static_cast<float>(context.num_workers);
  return make_push_pull(context, options);
}

}  // namespace

extern const AgreementRow kStalenessAware{
    .name = "staleness-aware",
    .doc = "Servers apply gradients as they come, with the learning rate divided by their staleness.",
    .paper = "Zhang, Gupta, Lian, Liu, Staleness-aware async-SGD for distributed deep learning, IJCAI 2016",
    .pace = Pace::kFree,
    .needs_server = true,
    .updates_here = false,
    .consistency = "async",
    .make = make_staleness_aware,
    .traffic = to_servers,
    .serve = [](const OptionValues&, int,
                server::ServerOptions& servers) { servers.divide_by_staleness = true; },
    .applies_old_updates = [](const OptionValues&) { return true; },
    .no_codec = nullptr};

extern const AgreementRow kSoft{
    .name = "soft",
    .doc = "Servers apply the mean of `gather` gradients, whoever they are of.",
    .paper = "Zhang, Gupta, Lian, Liu, Staleness-aware async-SGD for distributed deep learning, IJCAI 2016",
    .pace = Pace::kFree,
    .needs_server = true,
    .updates_here = false,
    .consistency = "soft",
    .options = kSoftOptions,
    .check = check_soft,
    .make = make_soft,
    .traffic = to_servers,
    .serve = [](const OptionValues& options, int num_workers,
                server::ServerOptions& servers) { servers.clocks.gather = gather_of(options, num_workers); },
    .applies_old_updates = [](const OptionValues&) { return true; },
    .no_codec = nullptr};

}  // namespace trireme::agree
