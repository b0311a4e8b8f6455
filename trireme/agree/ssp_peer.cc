// Stale synchronous parallel (Ho et al., More effective distributed ML via a stale synchronous parallel
// parameter server, NIPS 2013) without a server: workers broadcast the update of every clock, and a worker
// computes clock c only with all updates below clock c - s of every worker that still steps (s =
// `staleness`); newer ones are used as they come, its own at once. An update is 1 / W of what the worker's
// step changed, so that one clock of all workers goes as far as one synchronous step; with s = 0 and plain
// SGD it is that step.
//
// A worker that is lost, has finished or waits at a meeting is not waited for. All updates have arrived when
// workers meet, and clocks start anew, so the bound holds across meetings.
#include <algorithm>

#include "trireme/agree/mechanism/peer_updates.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {
namespace {

using runtime::Task;

constexpr OptionSpec kOptions[] = {kStaleness, kInFlight};

class SspPeer final : public Agreement {
 public:
  explicit SspPeer(const RuleContext& context)
      : rt_(*context.rt),
        staleness_(std::max<std::int64_t>(0, context.options.own.integer(kStaleness))),
        updates_(context, PeerUpdates::Counts::kShare) {}

  Task<Status> begin_step(StepInfo) override {
    const TimeNs began = rt_.now();
    TR_CO_RETURN_IF_ERROR(co_await updates_.wait_for_clocks(updates_.clock() - staleness_));
    waited_ns_ += rt_.now() - began;
    TR_CO_RETURN_IF_ERROR(co_await updates_.apply());
    max_lead_ = std::max(max_lead_, updates_.lead());
    co_return Status();
  }

  Task<Status> exchange(BucketExchange /*bucket*/) override { co_return Status(); }

  Task<Status> end_step(StepInfo) override {
    updates_.tick();
    const Result<bool> sent = co_await updates_.send(/*wait=*/true);
    co_return sent.status();
  }

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
    report.largest.emplace_back("max_lead");
    report.more["waited_seconds"] = static_cast<double>(waited_ns_) / static_cast<double>(kSecond);
    return report;
  }

 private:
  runtime::Runtime& rt_;
  std::int64_t staleness_;
  std::int64_t max_lead_ = 0;
  TimeNs waited_ns_ = 0;
  PeerUpdates updates_;
};

}  // namespace

extern const AgreementRow kSspPeer{
    .name = "ssp-peer",
    .doc = "As decentralized, and nobody is more than `staleness` clocks ahead of the slowest.",
    .paper =
        "Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, "
        "NIPS 2013",
    .pace = Pace::kBound,
    .needs_peers = true,
    .options = kOptions,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<SspPeer>(context);
    },
    .traffic = [](const OptionValues&, int num_workers) { return to_all_peers(num_workers); },
    .no_codec = nullptr};

}  // namespace trireme::agree
