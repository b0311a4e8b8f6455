// Asynchronous SGD of peers (Strom, Scalable distributed DNN training using commodity GPU cloud computing,
// Interspeech 2015): the change of a worker's weights by its own steps is broadcast and added by all others,
//
//   w_i <- w_i + u_j,   u_j = w_j(after own steps) - w_j(before),
//
// one update every `push_steps` steps. Nobody waits for a peer: where `in_flight` updates are still under
// way, the change waits for the next update and grows with it, and nothing is lost.
#include "trireme/agree/decentralized.h"

#include "trireme/agree/peer_updates.h"
#include "trireme/agree/vector_math.h"

namespace trireme::agree {
namespace {

using runtime::Task;

class Decentralized final : public Agreement {
 public:
  explicit Decentralized(const RuleContext& context)
      : rt_(*context.rt),
        push_steps_(std::max<std::int64_t>(1, context.options.push_steps)),
        updates_(context, PeerUpdates::Counts::kWhole) {}

  Task<Status> begin_step(StepInfo) override { return updates_.apply(); }

  Task<Status> exchange(BucketExchange bucket) override {
    co_await add_shards(rt_, std::move(bucket.shard_gradients));
    co_return Status();
  }

  Task<Status> end_step(StepInfo) override {
    updates_.tick();
    if (updates_.unsent_steps() < push_steps_) co_return Status();
    const Result<bool> sent = co_await updates_.send(/*wait=*/false);
    co_return sent.status();
  }

  Task<Status> settle(std::vector<Tensor> into) override { return updates_.settle(std::move(into)); }
  Task<Status> finish() override { return updates_.finish(); }
  void on_lost(int worker) override { updates_.on_lost(worker); }
  std::vector<std::pair<std::string, Tensor>> state() const override { return updates_.state(); }
  RuleReport report() const override { return updates_.report(); }

 private:
  runtime::Runtime& rt_;
  std::int64_t push_steps_;
  PeerUpdates updates_;
};

}  // namespace

std::unique_ptr<Agreement> make_decentralized(const RuleContext& context) {
  return std::make_unique<Decentralized>(context);
}

}  // namespace trireme::agree
