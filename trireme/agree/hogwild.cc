// Hogwild (Recht, Re, Wright, Niu, Hogwild!: a lock-free approach to parallelizing stochastic gradient
// descent, 2011): the workers of one host update one set of weights without locks.
//
// The trainer gives every worker the same memory as RuleContext::weights, and each worker's optimiser steps
// on it with the local gradient; so there is nothing to exchange. racy.h says what may go wrong and what may
// not. A worker's gradient is that of 1/W of a batch, for which the job's rate is meant, and counts 1/W: W
// updates go as far as one of bsp. (The paper leaves the factor to the rate.)
//
// `locked`, the variant to compare with: a worker holds a lock from the first bucket's exchange to the end of
// the step.
//   excluded:      two workers apply updates at the same time. No step is lost, and each is applied whole
//                  before the next one begins.
//   not excluded:  a forward or backward pass that reads weights while another worker applies its update, and
//                  gradients that are older than the weights they are applied to. (Keeping those out would
//                  leave one worker computing at a time.)
// The lock goes through rank 0 by letters. A worker that is lost with the lock in hand leaves its update half
// applied, as it may without the lock.
#include "trireme/agree/agree.h"
#include "trireme/agree/mechanism/meeting.h"
#include "trireme/agree/mechanism/racy.h"
#include "trireme/agree/mechanism/turns.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {
namespace {

constexpr OptionSpec kLocked{.name = "locked",
                             .default_value = false,
                             .doc = "Workers update the shared weights one at a time (default false)."};
constexpr OptionSpec kOptions[] = {kLocked};

std::optional<OptionFault> check_cut(const OptionValues& options) {
  if (!options.flag(kLocked)) return std::nullopt;
  return OptionFault{kLocked.name,
                     "false: the ranks of a replica would hold a lock each, and wait for each other"};
}

using runtime::Task;

class Hogwild final : public Agreement {
 public:
  explicit Hogwild(const RuleContext& context) : context_(context), rt_(*context.rt) {
    TR_CHECK(context.mail != nullptr, "[agree] hogwild needs letters");
    for (const Tensor& weights : context.weights) mark_racy(weights.raw(), weights.type().num_bytes());
    meeting_ = std::make_unique<Meeting<HereHead>>(rt_, *context.mail, context.worker, context.num_workers);
    if (context.options.own.flag(kLocked))
      turns_ = std::make_unique<Turns>(rt_, *context.mail, context.worker);
  }

  Task<Status> exchange(BucketExchange bucket) override {
    co_await take_share(bucket.bucket, bucket.gradient);
    if (!turns_) co_return Status();
    co_return co_await take_turn();
  }

  Task<Status> end_step(StepInfo) override {
    ++updates_;
    if (!turns_) co_return Status();
    has_turn_ = false;
    co_return co_await turns_->pass();
  }

  // Nobody updates between the two meetings, so all copies are equal.
  Task<Status> settle(std::vector<Tensor> into) override {
    TR_CO_RETURN_IF_ERROR(co_await meet());
    for (std::size_t b = 0; b < into.size(); ++b) {
      PassBody body = [](float* const* p, std::int64_t begin, std::int64_t end) {
        racy_read(p[0] + begin, p[1] + begin, end - begin);
      };
      const PassCost cost{0, 1, 1};
      std::vector<Tensor> vectors{context_.weights[b], into[b]};
      co_await run_pass(rt_, cost, std::move(vectors), std::move(body), "copy shared weights");
    }
    co_return co_await meet();
  }

  void on_lost(int worker) override {
    meeting_->on_lost(worker);
    if (turns_) turns_->on_lost(worker);
  }

  RuleReport report() const override {
    RuleReport r;
    r.exchanges = updates_;
    r.staleness = staleness_;
    r.more["locked"] = turns_ != nullptr;
    return r;
  }

 private:
  Task<void> take_share(std::size_t b, Tensor gradient) {
    const float share = 1.0F / static_cast<float>(context_.num_workers);
    PassBody body = [share](float* const* p, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) p[0][i] *= share;
    };
    const PassCost cost{1, 1, 1};
    std::vector<Tensor> vectors{std::move(gradient)};
    const std::int64_t parameters = context_.parameter_elems(b);
    co_await run_pass(rt_, cost, std::move(vectors), std::move(body), "share of a batch", parameters);
  }

  Task<Status> meet() {
    const HereHead here;
    const auto met = co_await meeting_->meet(here);
    co_return met.status();
  }

  // The first bucket of a step asks, the others wait with it.
  Task<Status> take_turn() {
    if (has_turn_) co_return Status();
    if (asking_) {
      const auto shot = std::make_shared<runtime::OneShot<Status>>(rt_);
      waiting_.push_back(shot);
      co_await shot->wait_until(kForever);  // the mailbox bounds the wait of the one who asked
      co_return shot->value();
    }
    asking_ = true;
    auto turn = co_await turns_->take();
    asking_ = false;
    has_turn_ = turn.ok();
    if (turn.ok()) note_turn(*turn);
    for (const auto& shot : waiting_) shot->set(turn.status());
    waiting_.clear();
    co_return turn.status();
  }

  // Turns of others since this worker's last one: updates that its gradient may not have seen.
  void note_turn(std::int64_t turn) {
    if (last_turn_ >= 0) ++staleness_[turn - last_turn_ - 1];
    last_turn_ = turn;
  }

  const RuleContext context_;
  runtime::Runtime& rt_;
  std::unique_ptr<Meeting<HereHead>> meeting_;
  std::unique_ptr<Turns> turns_;  // null: not locked
  bool asking_ = false, has_turn_ = false;
  std::vector<std::shared_ptr<runtime::OneShot<Status>>> waiting_;
  std::int64_t updates_ = 0, last_turn_ = -1;
  std::map<std::int64_t, std::int64_t> staleness_;
};

}  // namespace

extern const AgreementRow kHogwild{
    .name = "hogwild",
    .doc = "Workers of one host update one set of weights without locks; `locked`: one at a time.",
    .paper =
        "Recht, Re, Wright, Niu, Hogwild!: a lock-free approach to parallelizing stochastic gradient "
        "descent, "
        "2011",
    .pace = Pace::kFree,
    .options = kOptions,
    .check_cut = check_cut,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<Hogwild>(context);
    },
    .shares_weights = true,
    .no_codec =
        "nothing travels between its workers, so there is nothing to encode; use parallel.codec = none"};

}  // namespace trireme::agree
