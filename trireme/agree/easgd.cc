// Elastic averaging SGD, synchronous (Zhang, Choromanska, LeCun, Deep learning with Elastic Averaging SGD,
// 2015, equations 5 and 6): in the last step of every `period`, both lines from the old values,
//   x_i <- x_i - lr g_i(x_i) - alpha (x_i - c)
//   c   <- c + alpha sum_i (x_i - c)
// with alpha = elasticity, 0.9 / workers unless given. Where the workers' optimiser has momentum this is
// EAMSGD. Every worker keeps the centre c, with the same bits; it starts as the initial weights and is the
// agreed model.
//
// The differences are taken before the step's forward pass; the force is added behind the gradient. The first
// line needs nobody, and nobody needs the new centre before the next exchange begins: the differences are
// summed while the workers compute on.
//
// With a codec C both lines have C(x_i - c) for x_i - c, so that a worker and the centre still pull at each
// other with the same force. What C leaves out is no residual: it is part of the next difference. A step with
// an exchange then waits for it.
#include "trireme/agree/mechanism/coded_changes.h"
#include "trireme/agree/mechanism/server_updates.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/agree/traffic.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {
namespace {

using runtime::Task;

constexpr OptionSpec kOptions[] = {kGivenPeriod, kElasticity};

class Easgd final : public Agreement {
 public:
  explicit Easgd(const RuleContext& context)
      : context_(context),
        rt_(*context.rt),
        counters_(context.options.own.integer(kGivenPeriod)),
        alpha_(static_cast<float>(elasticity_of(context.options.own, context.num_workers))) {
    failure_ = prepare();
  }

  Task<Status> begin_step(StepInfo) override {
    TR_CO_RETURN_IF_ERROR(co_await start());
    if (!counters_.is_last_step()) co_return Status();
    TR_CO_RETURN_IF_ERROR(co_await wait_for_centre());
    for (std::size_t b = 0; b < centre_.size(); ++b)
      co_await subtract(rt_, context_.weights[b], centre_[b], difference_[b]);
    co_return Status();
  }

  Task<Status> exchange(BucketExchange /*bucket*/) override { co_return Status(); }

  Task<Status> end_step(StepInfo) override {
    if (!counters_.count_step()) co_return Status();
    for (std::size_t b = 0; b < centre_.size(); ++b)
      co_await add_scaled(rt_, context_.weights[b], -alpha_, difference_[b]);
    if (coded_ != nullptr && coded_->encodes_at(counters_.rounds())) co_return co_await move_coded();
    centre_moved_ = std::make_unique<runtime::OneShot<Status>>(rt_);
    moving_ = move_centre();
    moving_.start();
    co_return Status();
  }

  Task<Status> settle(std::vector<Tensor> into) override {
    TR_CO_RETURN_IF_ERROR(co_await start());
    TR_CO_RETURN_IF_ERROR(co_await wait_for_centre());
    for (std::size_t b = 0; b < centre_.size(); ++b) co_await copy(rt_, centre_[b], into[b]);
    co_return Status();
  }

  Task<Status> finish() override { co_return co_await wait_for_centre(); }

  RuleReport report() const override {
    RuleReport r = report_rounds(context_, counters_, coded_.get());
    if (context_.worker == 0) r.more["elasticity"] = alpha_;
    return r;
  }

  std::vector<std::pair<std::string, Tensor>> state() const override {
    std::vector<std::pair<std::string, Tensor>> all{{"easgd/counters", counters_.tensor()}};
    for (std::size_t b = 0; b < centre_.size(); ++b)
      all.emplace_back(fmt::format("easgd/centre/{}", b), centre_[b]);
    return all;
  }

 private:
  Status prepare() {
    if (const std::int64_t period = context_.options.own.integer(kGivenPeriod); period < 1)
      return error(Code::kInvalid,
                   "[agree] easgd: parallel.period: got {}, expected at least 1; only averaging chooses it",
                   period);
    TR_ASSIGN_OR_RETURN(coded_, CodedChanges::make(context_, CodedChanges::Rest::kForgotten));
    TR_ASSIGN_OR_RETURN(centre_, new_vectors_like(rt_, context_.weights));
    TR_ASSIGN_OR_RETURN(difference_, new_vectors_like(rt_, context_.weights));
    return {};
  }

  Task<Status> start() {
    if (!failure_.ok() || counters_.started()) co_return failure_;
    for (std::size_t b = 0; b < centre_.size(); ++b) co_await copy(rt_, context_.weights[b], centre_[b]);
    counters_.set_started();
    co_return Status();
  }

  // The workers' own lines took all of x - c; what C left out of it goes back.
  Task<Status> move_coded() {
    const auto round = static_cast<std::uint32_t>(counters_.rounds());
    TR_CO_RETURN_IF_ERROR(co_await coded_->sum(round, difference_));
    for (std::size_t b = 0; b < centre_.size(); ++b) {
      const Tensor rest = coded_->rest(b);
      if (!rest.is_null()) co_await add_scaled(rt_, context_.weights[b], alpha_, rest);
      co_await add_scaled(rt_, centre_[b], alpha_, difference_[b]);
    }
    co_return Status();
  }

  Task<Status> move_bucket(std::size_t b) {
    comm::Call call;
    call.step = static_cast<std::uint32_t>(counters_.rounds());
    call.slot = context_.buckets[b].mean_slot;
    call.label = fmt::format("differences of bucket {}", b);
    TR_CO_RETURN_IF_ERROR(co_await context_.workers->allreduce(std::move(call), difference_[b]));
    co_await add_scaled(rt_, centre_[b], alpha_, difference_[b]);
    co_return Status();
  }

  Task<void> move_centre() {
    std::vector<Task<Status>> buckets;
    for (std::size_t b = 0; b < centre_.size(); ++b) buckets.push_back(move_bucket(b));
    Status status = co_await runtime::when_all(rt_, std::move(buckets));
    centre_moved_->set(std::move(status));
  }

  // Bounded by the group: its verdict ends the sums.
  Task<Status> wait_for_centre() {
    if (!centre_moved_) co_return Status();
    co_await centre_moved_->wait_until(kForever);
    co_return centre_moved_->value();
  }

  const RuleContext context_;
  runtime::Runtime& rt_;
  PeriodCounters counters_;
  const float alpha_;
  std::vector<Tensor> centre_, difference_;
  std::unique_ptr<CodedChanges> coded_;  // null without a codec
  Status failure_;
  std::unique_ptr<runtime::OneShot<Status>> centre_moved_;  // null before the first exchange
  Task<void> moving_;                                       // after what it uses
};

}  // namespace

extern const AgreementRow kEasgd{
    .name = "easgd",
    .doc = "Every `period` steps workers and a centre pull at each other; every worker keeps the centre.",
    .paper = "Zhang, Choromanska, LeCun, Deep learning with Elastic Averaging SGD, 2015",
    .synchronous = true,
    .pace = Pace::kPeriod,
    .options = kOptions,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<Easgd>(context);
    },
    .traffic =
        [](const OptionValues& options, int) {
          cost::Traffic t = every_period(options);
          t.hidden = true;       // the centre moves while the workers compute on
          t.passes = 3 + 3 + 3;  // the difference, the force, the centre
          return t;
        },
    .sends_differences = true,
    .no_codec = nullptr};

}  // namespace trireme::agree
