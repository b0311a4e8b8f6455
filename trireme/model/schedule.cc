#include "trireme/model/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::model {
namespace {

constexpr double kOneCycleRise = 0.3, kOneCycleEnd = 1e4;

double half_cosine(double q) { return 0.5 * (1.0 + std::cos(std::numbers::pi * q)); }
double between(double low, double share) { return low == 0 ? share : low + (1 - low) * share; }

constexpr ScheduleRow kRows[] = {
    {"constant", "The rate stays.", [](const Schedule&, double, double) { return 1.0; }},
    {"step", "The rate falls by a factor at milestones.",
     [](const Schedule& s, double p, double) {
       double share = 1;
       for (const double m : s.milestones)
         if (m <= p) share *= s.factor;
       return share;
     }},
    {"cosine", "Half a cosine down to final_share.",
     [](const Schedule& s, double, double q) { return between(s.final_share, half_cosine(q)); }},
    {"polynomial", "(1 - q)^power down to final_share.",
     [](const Schedule& s, double, double q) { return between(s.final_share, std::pow(1 - q, s.power)); }},
    {"exponential", "factor^q.", [](const Schedule& s, double, double q) { return std::pow(s.factor, q); }},
    {"one-cycle", "Up by half a cosine, then down further than it began.",
     [](const Schedule& s, double, double q) {
       return between(1 / (s.start_divisor * kOneCycleEnd), half_cosine(q));
     }},
};

const ScheduleRow* find_row(const std::string& kind) {
  const auto at =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const auto& r) { return kind == r.name; });
  return at == std::end(kRows) ? nullptr : at;
}

double warmup_of(const Schedule& s) {
  return s.kind == "one-cycle" && s.warmup == 0 ? kOneCycleRise : s.warmup;
}

// Linear scaling's factor of the rate.
double scaling(const Schedule& s) {
  return s.reference_batch > 0 ? static_cast<double>(s.batch) / static_cast<double>(s.reference_batch) : 1;
}

double rising(const Schedule& s, double at) {
  if (s.kind == "one-cycle") return between(1 / s.start_divisor, 1 - half_cosine(at));
  const double start = s.reference_batch > 0 ? std::min(1.0, 1 / scaling(s)) : s.warmup_start;
  return at * (1 - start) + start;
}

Status expect(bool holds, const char* what, double got, const char* expected) {
  if (holds) return {};
  return error(Code::kInvalid, "[model] schedule: {}: got {}, expected {}", what, got, expected);
}

}  // namespace

std::span<const ScheduleRow> schedule_table() { return kRows; }

Status check_schedule(const Schedule& s) {
  if (find_row(s.kind) == nullptr) {
    std::string known;
    for (const ScheduleRow& row : kRows) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    return error(Code::kInvalid, "[model] schedule: got '{}', expected one of: {}", s.kind, known);
  }
  TR_RETURN_IF_ERROR(expect(std::isfinite(s.lr) && s.lr > 0, "lr", s.lr, "a value above 0"));
  TR_RETURN_IF_ERROR(expect(s.warmup >= 0 && s.warmup < 1, "warmup", s.warmup, "a fraction in [0, 1)"));
  TR_RETURN_IF_ERROR(expect(s.warmup_start >= 0 && s.warmup_start <= 1, "warmup_start", s.warmup_start,
                            "a fraction in [0, 1]"));
  TR_RETURN_IF_ERROR(
      expect(s.final_share >= 0 && s.final_share <= 1, "final_share", s.final_share, "a fraction in [0, 1]"));
  TR_RETURN_IF_ERROR(expect(s.factor > 0 && s.factor <= 1, "factor", s.factor, "a value in (0, 1]"));
  TR_RETURN_IF_ERROR(expect(std::isfinite(s.power) && s.power > 0, "power", s.power, "a value above 0"));
  TR_RETURN_IF_ERROR(expect(std::isfinite(s.start_divisor) && s.start_divisor >= 1, "start_divisor",
                            s.start_divisor, "at least 1"));
  double last = 0;
  for (const double m : s.milestones) {
    TR_RETURN_IF_ERROR(expect(m > last && m < 1, "milestones", m, "ascending fractions in (0, 1)"));
    last = m;
  }
  TR_RETURN_IF_ERROR(expect((s.kind == "step") == !s.milestones.empty(), "milestones",
                            static_cast<double>(s.milestones.size()), "some for 'step' and none for others"));
  TR_RETURN_IF_ERROR(expect(s.reference_batch >= 0 && (s.reference_batch == 0 || s.batch > 0), "batch",
                            static_cast<double>(s.batch), "the global batch where reference_batch is set"));
  return expect(s.max_batch_multiplier >= 1, "max_batch_multiplier",
                static_cast<double>(s.max_batch_multiplier), "at least 1");
}

SchedulePoint schedule_at(const Schedule& s, std::int64_t done, std::int64_t total) {
  const ScheduleRow* row = find_row(s.kind);
  TR_CHECK(row != nullptr, "schedule '{}' was not checked", s.kind);
  const double p =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0.0;
  const double warmup = warmup_of(s), peak = s.lr * scaling(s);
  if (p < warmup) return {peak * rising(s, p / warmup), 1};
  const double share = row->share(s, p, (p - warmup) / (1 - warmup));
  if (s.max_batch_multiplier == 1) return {peak * share, 1};
  // A little above, so that factors such as 0.1 and 0.2 give 10 and 5.
  const double wanted =
      share > 0 ? std::floor(1 / share * (1 + 1e-9)) : static_cast<double>(s.max_batch_multiplier);
  const auto multiplier =
      static_cast<std::int64_t>(std::clamp(wanted, 1.0, static_cast<double>(s.max_batch_multiplier)));
  return {peak * share * static_cast<double>(multiplier), multiplier};
}

double velocity_factor(const Schedule& s, std::int64_t last_done, std::int64_t done, std::int64_t total) {
  const double before = last_done < 0 ? 0 : schedule_at(s, last_done, total).lr;
  return before > 0 ? schedule_at(s, done, total).lr / before : 1;
}

}  // namespace trireme::model
