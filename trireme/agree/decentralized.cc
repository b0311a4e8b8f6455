// Asynchronous SGD of peers (Strom, Scalable distributed DNN training using commodity GPU cloud computing,
// Interspeech 2015): the change of a worker's weights by its own steps is broadcast and added by all others,
//
//   w_i <- w_i + u_j,   u_j = w_j(after own steps) - w_j(before),
//
// one update every `push_steps` steps. Where `in_flight` updates are still under way, the change waits for
// the next update and grows with it, and nothing is lost.
//
// The paper has no bound, and replicas that step on without a word from the others diverge. Here a worker
// waits when it has made `staleness` steps since the last update of a peer that still steps. Where workers
// have samples of their own (`own_samples`), it is never more than that many clocks ahead of anybody: what
// the others have still to step alone at the end would be learned at the cost of its samples.
#include <algorithm>

#include "trireme/agree/mechanism/peer_updates.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {
namespace {

using runtime::Task;

constexpr OptionSpec kNewsless = kStaleness.with_default(8);  // rarely reached by workers of one speed
constexpr OptionSpec kOptions[] = {kPushSteps, kInFlight, kNewsless};

class Decentralized final : public Agreement {
 public:
  explicit Decentralized(const RuleContext& context)
      : rt_(*context.rt),
        push_steps_(std::max<std::int64_t>(1, context.options.own.integer(kPushSteps))),
        staleness_(std::max(push_steps_, context.options.own.integer(kNewsless))),
        ahead_(context.options.own_samples ? PeerUpdates::Ahead::kOfClocks : PeerUpdates::Ahead::kOfNews),
        updates_(context, PeerUpdates::Counts::kWhole) {}

  Task<Status> begin_step(StepInfo) override {
    const TimeNs began = rt_.now();
    TR_CO_RETURN_IF_ERROR(co_await updates_.wait_while_ahead(staleness_, ahead_));
    waited_ns_ += rt_.now() - began;
    TR_CO_RETURN_IF_ERROR(co_await updates_.apply());
    max_lead_ = std::max(max_lead_, updates_.lead());
    co_return Status();
  }

  Task<Status> exchange(BucketExchange /*bucket*/) override { co_return Status(); }

  Task<Status> end_step(StepInfo) override {
    updates_.tick();
    if (updates_.unsent_steps() < push_steps_) co_return Status();
    const Result<bool> sent = co_await updates_.send(/*wait=*/false);
    co_return sent.status();
  }

  Task<Status> arrive() override { return updates_.arrive(); }
  Task<Status> settle(std::vector<Tensor> into) override { return updates_.settle(std::move(into)); }
  Task<Status> finish() override { return updates_.finish(); }
  void on_lost(int worker) override { updates_.on_lost(worker); }
  void on_moved(std::size_t bucket, std::int64_t begin, std::span<const float> by) override {
    updates_.on_moved(bucket, begin, by);
  }
  std::vector<std::pair<std::string, Tensor>> state() const override { return updates_.state(); }

  RuleReport report() const override {
    RuleReport report = updates_.report();
    report.more["max_lead"] = max_lead_;
    report.more["waited_seconds"] = static_cast<double>(waited_ns_) / static_cast<double>(kSecond);
    return report;
  }

 private:
  runtime::Runtime& rt_;
  const std::int64_t push_steps_, staleness_;
  const PeerUpdates::Ahead ahead_;
  std::int64_t max_lead_ = 0;
  TimeNs waited_ns_ = 0;
  PeerUpdates updates_;
};

}  // namespace

extern const AgreementRow kDecentralized{
    .name = "decentralized",
    .doc =
        "Workers send what they changed to all others, who add it as it comes; a worker waits after "
        "`staleness` "
        "steps without news of a peer.",
    .paper = "Strom, Scalable distributed DNN training using commodity GPU cloud computing, Interspeech 2015",
    .pace = Pace::kFree,
    .needs_peers = true,
    .options = kOptions,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<Decentralized>(context);
    },
    .traffic =
        [](const OptionValues& options, int num_workers) {
          cost::Traffic t = to_all_peers(num_workers);
          t.skips = true;
          t.every = steps_between(options, kPushSteps);
          return t;
        },
    .applies_old_updates = [](const OptionValues&) { return true; },
    .no_codec = nullptr};

}  // namespace trireme::agree
