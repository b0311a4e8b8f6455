#include "trireme/parallel/pipeline/price.h"

#include <algorithm>
#include <cmath>

#include "trireme/parallel/pipeline/messages.h"

namespace trireme::parallel {
namespace {

constexpr double kNever = -1;

class Walk {
 public:
  Walk(const TimetableSpec& spec, std::span<const StageActions> stages, const TimetableTimes& times)
      : spec_(spec),
        row_(**find_timetable_row(spec.kind)),
        stages_(stages),
        times_(times),
        free_(stages.size(), 0),
        link_free_(2 * stages.size(), 0),
        activations_(num_places(spec), kNever),
        gradients_(num_places(spec), kNever) {
    price_.stages.resize(stages.size());
  }

  Result<TimetablePrice> run() {
    for (int s = 0; s < spec_.stages; ++s) open_.push_back(s);
    while (!open_.empty()) {
      const int stage = open_.back();
      open_.pop_back();
      while (advance(stage)) {
      }
    }
    for (std::size_t s = 0; s < stages_.size(); ++s)
      if (price_.stages[s].times.size() < stages_[s].size())
        return error(Code::kInternal, "[pipeline] stage {} waits for ever at {}", s,
                     stages_[s][price_.stages[s].times.size()].to_text());
    add_up();
    return std::move(price_);
  }

 private:
  // When a message arrives at its receiver.
  double& arrival_of(const StageMessage& m) {
    return (m.is_gradient ? gradients_ : activations_)[place_of(spec_, m.micro_batch, m.to)];
  }

  bool advance(int stage) {
    const auto s = static_cast<std::size_t>(stage);
    std::vector<ActionTime>& timed = price_.stages[s].times;
    if (timed.size() == stages_[s].size()) return false;
    const TimetableAction& a = stages_[s][timed.size()];
    double start = free_[s];
    if (const StageMessage m = awaited_by(spec_, a); m.exists()) {
      const double arrival = arrival_of(m);
      if (arrival == kNever) return false;
      start = std::max(start, arrival);
    }
    free_[s] = start + times_.phases[static_cast<std::size_t>(a.virtual_stage)].of(a.phase);
    timed.push_back({start, free_[s]});
    if (const StageMessage m = sent_by(spec_, row_, a); m.exists()) send(m, free_[s]);
    return true;
  }

  void send(const StageMessage& m, double at) {
    const int to = spec_.stage_of(m.to);
    double& arrival = arrival_of(m);
    arrival = at;
    if (to != spec_.stage_of(m.from)) {
      double& link = link_free_[link_of(spec_, m)];
      const auto boundary = static_cast<std::size_t>(std::min(m.from, m.to));
      link = std::max(link, at) + (m.is_gradient ? times_.gradients : times_.activations)[boundary];
      arrival = link;
    }
    open_.push_back(to);
  }

  void add_up() {
    double busy = 0, first = 0, last = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      StagePrice& stage = price_.stages[s];
      if (stage.times.empty()) continue;
      const double begin = stage.times.front().start, end = stage.times.back().end;
      int in_flight = 0;
      for (std::size_t i = 0; i < stage.times.size(); ++i) {
        stage.busy_seconds += stage.times[i].end - stage.times[i].start;
        if (i > 0) stage.waiting_seconds += stage.times[i].start - stage.times[i - 1].end;
        if (stages_[s][i].phase == Phase::kForward) ++in_flight;
        if (stages_[s][i].phase == Phase::kWeights) --in_flight;
        stage.peak_in_flight = std::max(stage.peak_in_flight, in_flight);
      }
      price_.step_seconds = std::max(price_.step_seconds, end - begin);
      busy += stage.busy_seconds;
      first = s == 0 ? begin : std::min(first, begin);
      last = std::max(last, end);
    }
    price_.makespan_seconds = last - first;
    if (price_.step_seconds > 0)
      price_.bubble_fraction = 1 - busy / (static_cast<double>(spec_.stages) * price_.step_seconds);
  }

  const TimetableSpec& spec_;
  const TimetableRow& row_;
  const std::span<const StageActions> stages_;
  const TimetableTimes& times_;
  std::vector<double> free_;                     // when a stage's last action ends
  std::vector<double> link_free_;                // when a link's last message has arrived
  std::vector<double> activations_, gradients_;  // arrivals
  std::vector<int> open_;                        // stages that may be able to go on
  TimetablePrice price_;
};

Status check_times(const TimetableSpec& spec, const TimetableTimes& times) {
  const auto chain = static_cast<std::size_t>(spec.chain());
  if (times.phases.size() != chain || times.activations.size() != chain - 1 ||
      times.gradients.size() != chain - 1)
    return error(Code::kInvalid,
                 "[pipeline] times of {} virtual stages and {} and {} messages: expected {} and {} each",
                 times.phases.size(), times.activations.size(), times.gradients.size(), chain, chain - 1);
  const auto is_time = [](double t) { return std::isfinite(t) && t >= 0; };
  bool fine = std::all_of(times.activations.begin(), times.activations.end(), is_time) &&
              std::all_of(times.gradients.begin(), times.gradients.end(), is_time);
  for (const PhaseTimes& t : times.phases)
    fine = fine && is_time(t.forward) && is_time(t.backward) && is_time(t.weights) && is_time(t.update);
  if (fine) return {};
  return error(Code::kInvalid, "[pipeline] a time is negative or no number: expected 0 or more");
}

}  // namespace

TimetableTimes TimetableTimes::equal(const TimetableSpec& spec, const PhaseTimes& phases, double message) {
  const auto chain = static_cast<std::size_t>(spec.chain());
  return {std::vector(chain, phases), std::vector(chain - 1, message), std::vector(chain - 1, message)};
}

Result<TimetablePrice> walk_timetables(const TimetableSpec& spec, std::span<const StageActions> stages,
                                       const TimetableTimes& times) {
  TR_RETURN_IF_ERROR(check_timetable(spec));
  TR_RETURN_IF_ERROR(check_times(spec, times));
  if (stages.size() != static_cast<std::size_t>(spec.stages))
    return error(Code::kInvalid, "[pipeline] there are timetables of {} stages, expected {}", stages.size(),
                 spec.stages);
  return Walk(spec, stages, times).run();
}

Result<PricedTimetable> price_timetable(const TimetableSpec& spec, const TimetableTimes& times) {
  PricedTimetable priced;
  priced.spec = spec;
  TR_ASSIGN_OR_RETURN(priced.stages, build_timetables(spec));
  TR_ASSIGN_OR_RETURN(priced.price, walk_timetables(spec, priced.stages, times));
  return priced;
}

}  // namespace trireme::parallel
