#include "trireme/plan/draw_step.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/units.h"

namespace trireme::plan {
namespace {

constexpr double kWidth = 1000, kLeft = 96, kRight = 24, kTop = 56, kBottom = 44, kRow = 34;

std::string duration(double seconds) { return format_duration(from_seconds(seconds)); }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

std::vector<std::size_t> by_begin(const PricedStep& step) {
  std::vector<std::size_t> order(step.program.actions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return step.times.begin[a] < step.times.begin[b]; });
  return order;
}

// Rows of the picture: one per lane of cores, then what each kind of action has.
std::string row_name(const PricedStep& step, std::size_t i) {
  const Action& a = step.program.actions[i];
  switch (a.kind) {
    case ActionKind::kCompute:
      return fmt::format("cores {}", step.prices[i].lane);
    case ActionKind::kUpdate:
      return "updates";
    case ActionKind::kVote:
      return "vote";
    default:
      return "link";
  }
}

class Picture {
 public:
  explicit Picture(const PricedStep& step) : step_(step) {
    for (std::size_t i = 0; i < step.program.actions.size(); ++i) {
      const std::string name = row_name(step, i);
      if (std::find(rows_.begin(), rows_.end(), name) == rows_.end()) rows_.push_back(name);
      last_ = std::max(last_, step.times.end[i]);
    }
  }

  std::string draw(std::string_view title) {
    const double height = kTop + kRow * static_cast<double>(rows_.size()) + kBottom;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} "
        "{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n{2}<rect class=\"page\" width=\"100%\" "
        "height=\"100%\"/>\n<text class=\"text\" x=\"12\" y=\"24\" font-size=\"15\" "
        "font-weight=\"bold\">{3}</text>\n",
        kWidth, height, kStyle, escaped(title));
    for (std::size_t r = 0; r < rows_.size(); ++r)
      out_ += fmt::format(
          "<text class=\"text\" x=\"12\" y=\"{0:.1f}\">{1}</text><line class=\"line\" x1=\"{2:.1f}\" "
          "y1=\"{3:.1f}\" x2=\"{4:.1f}\" y2=\"{3:.1f}\"/>\n",
          top_of(r) + 19, rows_[r], kLeft, top_of(r) + kRow - 2, kWidth - kRight);
    for (std::size_t i = 0; i < step_.program.actions.size(); ++i) bar(i);
    out_ += fmt::format(
        "<text class=\"text\" x=\"12\" y=\"{:.1f}\">a step takes {}; the last action of this one ends after "
        "{}"
        "</text>\n",
        height - 16, duration(step_.times.step_seconds), duration(last_));
    return out_ + "</svg>\n";
  }

 private:
  // Colours that colour-blind readers tell apart (Okabe and Ito, "Color Universal Design", 2008).
  static constexpr const char* kStyle =
      "<style>.page{fill:#ffffff}.text{fill:#222222}.line{stroke:#dddddd}.bar{stroke:#ffffff}"
      ".compute{fill:#0072b2}.sum,.send,.recv{fill:#d55e00}.update{fill:#009e73}.vote{fill:#999999}"
      ".label{fill:#ffffff;font-size:10px}"
      "@media (prefers-color-scheme: dark){.page{fill:#16181c}.text{fill:#dddddd}.line{stroke:#3a3f47}"
      ".bar{stroke:#16181c}.compute{fill:#56b4e9}.sum,.send,.recv{fill:#e69f00}.update{fill:#33b890}"
      ".label{fill:#16181c}}</style>\n";

  double top_of(std::size_t row) const { return kTop + kRow * static_cast<double>(row); }
  double x_of(double seconds) const {
    return kLeft + (kWidth - kLeft - kRight) * (last_ > 0 ? seconds / last_ : 0);
  }

  void bar(std::size_t i) {
    const Action& a = step_.program.actions[i];
    const double begin = step_.times.begin[i], end = step_.times.end[i];
    const auto row = static_cast<std::size_t>(
        std::distance(rows_.begin(), std::find(rows_.begin(), rows_.end(), row_name(step_, i))));
    const double x = x_of(begin), width = std::max(1.0, x_of(end) - x);
    if (end <= begin && a.kind != ActionKind::kVote) return;
    out_ += fmt::format(
        "<g><title>{}: {} to {}</title><rect class=\"bar {}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{:.0f}\"/>",
        escaped(a.to_text()), duration(begin), duration(end), action_name(a.kind), x, top_of(row) + 4, width,
        kRow - 10);
    const std::string label = a.kind == ActionKind::kCompute ? fmt::format("{}.{}", a.cell.shard, a.part)
                              : a.bucket >= 0                ? fmt::format("{}", a.bucket)
                                                             : "";
    if (width > 8.0 * static_cast<double>(label.size()))
      out_ += fmt::format("<text class=\"label\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                          x + width / 2, top_of(row) + 20, label);
    out_ += "</g>\n";
  }

  const PricedStep& step_;
  std::vector<std::string> rows_;
  double last_ = 0;
  std::string out_;
};

// Cores first: as many cells at once as there are threads for.
class Pricing {
 public:
  Pricing(const Plan& plan, const StepCosts& costs, const Replicas& replicas, const StepParts& parts)
      : plan_(plan),
        replicas_(replicas),
        shape_(step_shape(plan, costs, replicas.rates)),
        parts_(parts),
        at_once_(std::max(1, replicas.rates.machine.cores / std::max(1, plan.shard_threads))) {
    before_.push_back(0);
    for (std::size_t s = 0; s < costs.strands.size(); ++s)
      before_.push_back(before_.back() + strand_seconds(plan, costs, s, replicas.rates).seconds);
  }

  ActionPrice of(const Action& a, const StepSpec& spec) const {
    const auto bucket = static_cast<std::size_t>(std::max(0, a.bucket));
    if (a.kind == ActionKind::kCompute) {
      const std::int32_t cell = a.cell.shard - spec.cells.front().shard;
      return {at(a.part + 1) - at(a.part), cell % at_once_};
    }
    if (a.kind == ActionKind::kUpdate) return {shape_.update[bucket], at_once_ + 1};
    if (a.kind == ActionKind::kSum && a.peer == -1) return {shape_.exchange[bucket], at_once_};
    if (a.kind == ActionKind::kVote) return {spec.timetable == Timetable::kLockStep ? shape_.vote : 0};
    // By the servers, there and back; or to peers.
    const bool all = a.kind == ActionKind::kSum || a.peer == kOtherWorkers;
    return {all ? trade_of(plan_, plan_.buckets[bucket], replicas_).seconds : 0, at_once_};
  }

 private:
  double at(std::int32_t cut) const {
    return before_[static_cast<std::size_t>(parts_.cuts[static_cast<std::size_t>(cut)])];
  }

  const Plan& plan_;
  const Replicas& replicas_;
  const StepShape shape_;
  const StepParts& parts_;
  const int at_once_;
  std::vector<double> before_;  // seconds before each strand, and in all
};

}  // namespace

Result<PricedStep> price_step(const Plan& plan, const StepCosts& costs, const Replicas& replicas, int rank) {
  const StepParts parts = cut_strands(costs);
  const StepSpec spec = step_spec(plan, plan.cell_owners(), parts, replicas.traffic, rank);
  PricedStep step;
  step.proved = plan.mesh().num_ranks() <= kMostProvedRanks;
  TR_RETURN_IF_ERROR(prove_steps(plan, plan.cell_owners(), parts, replicas.traffic));
  TR_ASSIGN_OR_RETURN(step.program, build_step(spec));
  const Pricing pricing(plan, costs, replicas, parts);
  for (const Action& a : step.program.actions) step.prices.push_back(pricing.of(a, spec));
  constexpr int kSteps = 8;
  step.times = walk_step(step.program, step.prices, kSteps);
  return step;
}

std::string draw_text(const PricedStep& step) {
  std::string text = fmt::format("{:>12} {:>12}  {}\n", "begins", "takes", "action");
  for (const std::size_t i : by_begin(step))
    if (step.prices[i].seconds > 0 || step.program.actions[i].kind != ActionKind::kCompute)
      text += fmt::format("{:>12} {:>12}  {}\n", duration(step.times.begin[i]),
                          duration(step.prices[i].seconds), step.program.actions[i].to_text());
  return text +
         fmt::format("A step takes {}.{}\n", duration(step.times.step_seconds),
                     step.proved
                         ? " Proved: every gradient is summed and applied once, nothing waits for ever."
                         : "");
}

Json to_json(const PricedStep& step) {
  Json actions = Json::array();
  for (std::size_t i = 0; i < step.program.actions.size(); ++i) {
    const Action& a = step.program.actions[i];
    Json row = {{"action", a.to_text()},
                {"kind", action_name(a.kind)},
                {"begin_seconds", step.times.begin[i]},
                {"end_seconds", step.times.end[i]},
                {"after", Json::array()}};
    for (const std::uint32_t d : step.program.deps_of(a)) row["after"].push_back(d);
    if (a.bucket >= 0) row["bucket"] = a.bucket;
    if (a.kind == ActionKind::kCompute) row["part"] = a.part, row["shard"] = a.cell.shard;
    if ((a.kind == ActionKind::kSum && a.peer == -1) || (a.kind == ActionKind::kVote && a.slot != 0))
      row["slot"] = a.slot;
    actions.push_back(std::move(row));
  }
  Json carried = Json::array();
  for (const auto& [later, earlier] : step.program.carried) carried.push_back({later, earlier});
  return {{"rank", step.program.rank},
          {"step_seconds", step.times.step_seconds},
          {"verified", step.proved},
          {"actions", actions},
          {"carried", carried}};
}

std::string draw_svg(const PricedStep& step, std::string_view title) { return Picture(step).draw(title); }

}  // namespace trireme::plan
