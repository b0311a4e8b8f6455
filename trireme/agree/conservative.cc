// Conservative subproblems (Li, Zhang, Chen, Smola, Efficient mini-batch training for stochastic
// optimization, KDD 2014): between two averages a worker minimises
//   f_i(x) + gamma/2 |x - w|^2
// with w the model agreed on last and gamma = proximity, by `period` steps of its optimiser; then w is the
// mean of the workers' x, and everybody goes on from it. The paper takes the steps on one mini-batch; here
// each has its own. gamma = 0 is plain averaging. The term is on parameters only. With a codec the mean is
// made of encoded changes since w, as averaging's (coded_changes.h).
#include "trireme/agree/mechanism/coded_changes.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {
namespace {

using runtime::Task;

constexpr OptionSpec kProximity{
    .name = "proximity",
    .default_value = 0.0,
    .doc =
        "Weight of the proximal term in a worker's loss: the squared distance to the agreed model "
        "(default 0).",
    .range = {.least = 0, .most = 1e6}};
constexpr OptionSpec kOptions[] = {kGivenPeriod, kProximity};

class Conservative final : public Agreement {
 public:
  explicit Conservative(const RuleContext& context)
      : context_(context), rt_(*context.rt), counters_(context.options.own.integer(kGivenPeriod)) {
    failure_ = prepare();
  }

  Task<Status> begin_step(StepInfo) override {
    if (!failure_.ok() || counters_.started()) co_return failure_;
    co_await keep_agreed();
    counters_.set_started();
    co_return Status();
  }

  // gradient += gamma (x - w)
  Task<Status> exchange(BucketExchange bucket) override {
    const std::size_t b = bucket.bucket;
    const Tensor gradient = bucket.gradient;
    const auto gamma = static_cast<float>(context_.options.own.number(kProximity));
    PassBody body = [gamma](float* const* p, std::int64_t begin, std::int64_t end) {
      float* g = p[0];
      const float *x = p[1], *agreed = p[2];
      for (std::int64_t i = begin; i < end; ++i) g[i] += gamma * (x[i] - agreed[i]);
    };
    const PassCost cost{3, 3, 1};
    std::vector<Tensor> vectors{gradient, context_.weights[b], agreed_[b]};
    const std::int64_t parameters = context_.parameter_elems(b);
    co_await run_pass(rt_, cost, std::move(vectors), std::move(body), "proximity", parameters);
    co_return Status();
  }

  Task<Status> end_step(StepInfo) override {
    if (!counters_.count_step()) co_return Status();
    TR_CO_RETURN_IF_ERROR(co_await mean_of_weights(context_, counters_, coded_.get(), agreed_));
    co_await keep_agreed();
    co_return Status();
  }

  Task<Status> settle(std::vector<Tensor> into) override {
    co_return co_await settle_on_mean(context_, settles_++, std::move(into));
  }

  RuleReport report() const override {
    RuleReport r = report_rounds(context_, counters_, coded_.get());
    if (context_.worker == 0) r.more["proximity"] = context_.options.own.number(kProximity);
    return r;
  }

  std::vector<std::pair<std::string, Tensor>> state() const override {
    return state_of_rounds("conservative", counters_, agreed_, coded_.get());
  }

 private:
  Status prepare() {
    const std::int64_t period = context_.options.own.integer(kGivenPeriod);
    const double proximity = context_.options.own.number(kProximity);
    if (period < 1)
      return error(Code::kInvalid,
                   "[agree] conservative: parallel.period: got {}, expected at least 1; only averaging "
                   "chooses it",
                   period);
    if (!(proximity >= 0))
      return error(Code::kInvalid, "[agree] conservative: parallel.proximity: got {}, expected 0 or more",
                   proximity);
    TR_ASSIGN_OR_RETURN(coded_, CodedChanges::make(context_));
    TR_ASSIGN_OR_RETURN(agreed_, new_vectors_like(rt_, context_.weights));
    return {};
  }

  Task<void> keep_agreed() {
    for (std::size_t b = 0; b < agreed_.size(); ++b) co_await copy(rt_, context_.weights[b], agreed_[b]);
  }

  const RuleContext context_;
  runtime::Runtime& rt_;
  PeriodCounters counters_;
  std::vector<Tensor> agreed_;
  std::unique_ptr<CodedChanges> coded_;  // null without a codec
  Status failure_;
  std::uint32_t settles_ = 0;
};

}  // namespace

extern const AgreementRow kConservative{
    .name = "conservative",
    .doc = "As averaging, and local steps are held near the last average by a proximal term.",
    .paper = "Li, Zhang, Chen, Smola, Efficient mini-batch training for stochastic optimization, KDD 2014",
    .synchronous = true,
    .pace = Pace::kPeriod,
    .options = kOptions,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<Conservative>(context);
    },
    .traffic = [](const OptionValues& options, int) { return every_period(options); },
    .no_codec = nullptr};

}  // namespace trireme::agree
