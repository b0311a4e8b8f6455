// Averaging: every worker takes `period` steps of its own, then the weights are averaged over all workers.
//
// With w the model agreed on last and m the mean of the workers' weights, running statistics included:
//   average   w <- m                                          local SGD; SparkNet (Moritz et al. 2015)
//   sgd       d = w - m, v <- mu v + d, w <- w - eta v        block momentum (Chen and Huo 2016)
//   nesterov  d = w - m, v <- mu v + d, w <- w - eta (d + mu v)   DiLoCo (Douillard et al. 2023)
// with eta = outer_lr, mu = outer_momentum; then every worker goes on from w. Statistics are averages in all
// three: an extrapolated variance can be negative.
//
// The mean is made in place over the live weights, all buckets at once; with a codec by changes since the
// model agreed on last (coded_changes.h).
#include "trireme/agree/mechanism/coded_changes.h"
#include "trireme/agree/mechanism/vector_math.h"
#include "trireme/agree/traffic.h"

namespace trireme::agree {
namespace {

using runtime::Task;

constexpr std::string_view kOuterNames[] = {"average", "sgd", "nesterov"};
constexpr OptionSpec kOuter{
    .name = "outer",
    .default_value = "average",
    .doc = "Outer optimizer, applied to the mean of the workers: average (take the mean), sgd, nesterov.",
    .range = {.choices = kOuterNames}};
constexpr OptionSpec kOuterLr{.name = "outer_lr",
                              .default_value = 1.0,
                              .doc = "Learning rate of the outer optimizer (default 1).",
                              .range = {.least = 0,
                                        .most = 1e6,
                                        .above_least = true,
                                        .below_most = true,
                                        .words = "a rate above 0 and below 1000000"}};
constexpr OptionSpec kOuterMomentum{
    .name = "outer_momentum",
    .default_value = 0.0,
    .doc = "Momentum of the outer optimizer (default 0).",
    .range = {.least = 0, .most = 1, .below_most = true, .words = "at least 0 and below 1"}};
constexpr OptionSpec kOptions[] = {kPeriod, kOuter, kOuterLr, kOuterMomentum};

std::optional<OptionFault> check_cut(const OptionValues& options) {
  if (options.integer(kPeriod) > 0) return std::nullopt;
  return OptionFault{kPeriod.name, "1 or more: the ranks of a replica would measure periods of their own"};
}

std::optional<OptionFault> check(const OptionValues& options, int) {
  if (options.text(kOuter) != "average") return std::nullopt;
  for (const OptionSpec& spec : {kOuterLr, kOuterMomentum})
    if (options.has(spec.name))
      return OptionFault{
          spec.name,
          "it not to be set where the mean is taken as it is; set parallel.outer to sgd or nesterov"};
  return std::nullopt;
}

enum class Outer : std::uint8_t { kAverage, kSgd, kNesterov };

class Averaging final : public Agreement {
 public:
  explicit Averaging(const RuleContext& context)
      : context_(context), rt_(*context.rt), counters_(context.options.own.integer(kPeriod)) {
    failure_ = prepare();
  }

  Task<Status> begin_step(StepInfo) override {
    if (!failure_.ok()) co_return failure_;
    if (!counters_.started()) co_await start();
    began_ = rt_.now();
    co_return Status();
  }

  Task<Status> exchange(BucketExchange /*bucket*/) override { co_return Status(); }

  Task<Status> end_step(StepInfo) override {
    worked_ns_ += rt_.now() - began_;
    ++worked_steps_;
    if (!counters_.count_step()) co_return Status();
    const TimeNs arrived = rt_.now();
    TR_CO_RETURN_IF_ERROR(co_await average());
    if (auto_) TR_CO_RETURN_IF_ERROR(co_await choose_period(rt_.now() - arrived));
    worked_ns_ = 0;
    worked_steps_ = 0;
    co_return Status();
  }

  Task<Status> settle(std::vector<Tensor> into) override {
    co_return co_await settle_on_mean(context_, settles_++, std::move(into));
  }

  RuleReport report() const override {
    RuleReport r = report_rounds(context_, counters_, coded_.get());
    if (context_.worker == 0) r.more["outer"] = context_.options.own.text(kOuter);
    return r;
  }

  std::vector<std::pair<std::string, Tensor>> state() const override {
    auto all = state_of_rounds("averaging", counters_, agreed_, coded_.get());
    for (std::size_t b = 0; b < velocity_.size(); ++b)
      all.emplace_back(fmt::format("averaging/velocity/{}", b), velocity_[b]);
    return all;
  }

 private:
  Status prepare() {
    const OptionValues& o = context_.options.own;
    const std::string outer = o.text(kOuter);
    if (outer == "sgd") {
      outer_ = Outer::kSgd;
    } else if (outer == "nesterov") {
      outer_ = Outer::kNesterov;
    } else if (outer != "average") {
      return error(Code::kInvalid,
                   "[agree] parallel.outer: got '{}', expected one of: average, sgd, nesterov", outer);
    }
    if (o.integer(kPeriod) == 0) {
      counters_.set_period(1);
      if (context_.num_workers > 1) {
        if (context_.mail == nullptr)
          return error(Code::kInvalid,
                       "[agree] parallel.period = 0 is chosen by letters, and this job has none; "
                       "give parallel.period a number of steps");
        auto_ = std::make_unique<AutoPeriod>(rt_, *context_.mail, context_.worker, context_.num_workers);
      }
    }
    TR_ASSIGN_OR_RETURN(coded_, CodedChanges::make(context_));
    if (outer_ == Outer::kAverage && coded_ == nullptr) return {};
    TR_ASSIGN_OR_RETURN(agreed_, new_vectors_like(rt_, context_.weights));
    if (outer_ == Outer::kAverage) return {};
    TR_ASSIGN_OR_RETURN(velocity_, new_vectors_like(rt_, context_.weights));
    return {};
  }

  // Nothing was restored: the weights that everybody starts with are the first agreed model.
  Task<void> start() {
    for (std::size_t b = 0; b < agreed_.size(); ++b) co_await copy(rt_, context_.weights[b], agreed_[b]);
    for (const Tensor& v : velocity_) co_await fill(rt_, v, 0);
    counters_.set_started();
  }

  Task<Status> average() {
    TR_CO_RETURN_IF_ERROR(co_await mean_of_weights(context_, counters_, coded_.get(), agreed_));
    for (std::size_t b = 0; b < agreed_.size(); ++b) {
      if (outer_ == Outer::kAverage)
        co_await copy(rt_, context_.weights[b], agreed_[b]);
      else
        co_await outer_step(b);
    }
    co_return Status();
  }

  Task<void> outer_step(std::size_t b) {
    const auto lr = static_cast<float>(context_.options.own.number(kOuterLr));
    const auto momentum = static_cast<float>(context_.options.own.number(kOuterMomentum));
    const bool nesterov = outer_ == Outer::kNesterov;
    PassBody body = [lr, momentum, nesterov](float* const* p, std::int64_t begin, std::int64_t end) {
      float *w = p[0], *agreed = p[1], *v = p[2];
      for (std::int64_t i = begin; i < end; ++i) {
        const float d = agreed[i] - w[i];
        v[i] = momentum * v[i] + d;
        agreed[i] -= lr * (nesterov ? d + momentum * v[i] : v[i]);
        w[i] = agreed[i];
      }
    };
    const PassCost cost{nesterov ? 7.0 : 5.0, 3, 3};
    std::vector<Tensor> vectors{context_.weights[b], agreed_[b], velocity_[b]};
    const std::int64_t parameters = context_.parameter_elems(b);
    co_await run_pass(rt_, cost, std::move(vectors), std::move(body), "outer step", parameters);
  }

  Task<Status> choose_period(TimeNs exchanged_ns) {
    const double step = to_seconds(worked_ns_) / static_cast<double>(worked_steps_);
    auto chosen = co_await auto_->choose(to_seconds(exchanged_ns), step);
    if (!chosen.ok()) co_return chosen.status();
    counters_.set_period(*chosen);
    co_return Status();
  }

  const RuleContext context_;
  runtime::Runtime& rt_;
  PeriodCounters counters_;
  Outer outer_ = Outer::kAverage;
  std::unique_ptr<AutoPeriod> auto_;
  std::vector<Tensor> agreed_, velocity_;  // none for plain averages, velocities for no average
  std::unique_ptr<CodedChanges> coded_;    // null without a codec
  Status failure_;
  std::uint32_t settles_ = 0;
  TimeNs began_ = 0, worked_ns_ = 0;
  std::int64_t worked_steps_ = 0;
};

}  // namespace

extern const AgreementRow kAveraging{
    .name = "averaging",
    .doc =
        "Workers train alone for `period` steps, then their weights are averaged; an outer optimizer may "
        "follow.",
    .paper =
        "Moritz, Nishihara, Stoica, Jordan, SparkNet, 2015; Chen and Huo, block momentum (BMUF), 2016; "
        "Douillard et "
        "al., DiLoCo, 2023",
    .synchronous = true,
    .pace = Pace::kPeriod,
    .options = kOptions,
    .check = check,
    .check_cut = check_cut,
    .make = [](const RuleContext& context) -> std::unique_ptr<Agreement> {
      return std::make_unique<Averaging>(context);
    },
    .traffic = [](const OptionValues& options, int) { return every_period(options); },
    .no_codec = nullptr};

}  // namespace trireme::agree
