#include "trireme/agree/mechanism/push_pull.h"

#include <algorithm>
#include <limits>

#include "trireme/agree/mechanism/vector_math.h"

namespace trireme::agree {
namespace {

using runtime::Task;

class PushPull final : public Agreement {
 public:
  PushPull(const RuleContext& context, const PushPullOptions& options)
      : options_(options), based_on_(context.weights.size()), link_(context) {}

  Task<Status> begin_step(StepInfo step) override {
    learning_rate_ = step.learning_rate;
    const TimeNs began = link_.rt().now();
    if (std::exchange(pulling_, false)) {
      TR_CO_RETURN_IF_ERROR(co_await link_.background().drain());
      note_read();
    } else {
      TR_CO_RETURN_IF_ERROR(co_await link_.pull_all(link_.context().weights, link_.clock()));
    }
    link_.note_wait(began);
    if (options_.jumps) jump();
    for (std::size_t b = 0; b < based_on_.size(); ++b) based_on_[b] = link_.version(b).updates;
    co_return Status();
  }

  Task<Status> exchange(BucketExchange bucket) override {
    const std::size_t b = bucket.bucket;
    const Tensor gradient = bucket.gradient;
    server::PushNote note;
    note.learning_rate = learning_rate_;
    note.scale = options_.scale;
    note.based_on = based_on_[b];
    TR_CO_RETURN_IF_ERROR(co_await link_.push(b, gradient, note));
    pulling_ = true;
    link_.background().start(link_.pull(b, link_.context().weights[b], link_.clock() + 1));
    co_return Status();
  }

  Task<Status> end_step(StepInfo) override { co_return co_await link_.tick(); }

  Task<Status> arrive() override {
    link_.leave();
    co_return Status();
  }

  Task<Status> finish() override { co_return co_await link_.finish(); }

  // What was pulled before the meeting need not be what all agreed on there: the next step reads again.
  Task<Status> settle(std::vector<Tensor> into) override {
    TR_CO_RETURN_IF_ERROR(co_await link_.settle(std::move(into)));
    pulling_ = false;
    co_return Status();
  }

  void on_lost(int worker) override { link_.on_lost(worker); }
  std::vector<std::pair<std::string, Tensor>> state() const override { return link_.state(); }

  RuleReport report() const override {
    RuleReport report = link_.report();
    if (options_.jumps) report.more["clocks_skipped"] = skipped_;
    return report;
  }

 private:
  void note_read() {
    using Staleness = PushPullOptions::Staleness;
    if (options_.staleness == Staleness::kSkipped) return;
    std::int64_t updates = 0, oldest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t b = 0; b < based_on_.size(); ++b) {
      updates = std::max(updates, link_.version(b).updates - based_on_[b]);
      oldest = std::min(oldest, link_.version(b).oldest_clock);
    }
    if (options_.staleness == Staleness::kClocks)
      link_.note_staleness(link_.clock() - oldest);
    else
      link_.note_staleness(options_.staleness == Staleness::kOthers ? updates - 1 : updates);
  }

  // Slices close their clocks one by one; the one that is furthest tells which clock can still be in time.
  void jump() {
    std::int64_t open = link_.clock();
    for (std::size_t b = 0; b < based_on_.size(); ++b) open = std::max(open, link_.version(b).oldest_clock);
    const std::int64_t skipped = open - link_.clock();
    if (link_.clock() > 0) link_.note_staleness(skipped);
    skipped_ += skipped;
    link_.set_clock(open);
  }

  PushPullOptions options_;
  std::vector<std::int64_t> based_on_;
  float learning_rate_ = 0;
  bool pulling_ = false;
  std::int64_t skipped_ = 0;
  ServerLink link_;
};

}  // namespace

std::unique_ptr<Agreement> make_push_pull(const RuleContext& context, const PushPullOptions& options) {
  return std::make_unique<PushPull>(context, options);
}

}  // namespace trireme::agree
