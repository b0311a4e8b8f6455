#include "trireme/record/pipeline_report.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "trireme/plan/slots.h"

namespace trireme::record {
namespace {

constexpr double kClearlySlower = 1.25;
constexpr std::uint16_t kStageShares = 1;  // the iteration: gather_shares is the slot's first call
constexpr std::size_t kFields = 4;         // numbers of a share

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

double PipelineReport::bubble_fraction() const {
  if (step_seconds <= 0) return 0;
  const double busy = std::accumulate(busy_seconds.begin(), busy_seconds.end(), 0.0);
  return 1 - busy / (step_seconds * static_cast<double>(busy_seconds.size()));
}

double bubble_fraction(const StageShare& share) {
  return share.step_seconds > 0 ? 1 - share.busy_seconds / share.step_seconds : 0;
}

int find_slow_stage(const std::vector<double>& busy_seconds) {
  if (busy_seconds.size() < 2) return -1;
  const auto slowest = std::max_element(busy_seconds.begin(), busy_seconds.end());
  std::vector<double> others(busy_seconds.begin(), slowest);
  others.insert(others.end(), slowest + 1, busy_seconds.end());
  return *slowest > kClearlySlower * median(std::move(others))
             ? static_cast<int>(slowest - busy_seconds.begin())
             : -1;
}

void take_stages(std::vector<StageShare> of_ranks, PipelineReport& report) {
  report.of_ranks = std::move(of_ranks);
  if (report.of_ranks.empty()) return;
  report.busy_seconds.assign(static_cast<std::size_t>(report.stages), 0);
  report.kept_bytes = report.busy_seconds;
  for (const StageShare& share : report.of_ranks) {
    double& busy = report.busy_seconds[static_cast<std::size_t>(share.stage)];
    double& kept = report.kept_bytes[static_cast<std::size_t>(share.stage)];
    busy = std::max(busy, share.busy_seconds);
    kept = std::max(kept, share.kept_bytes);
    report.step_seconds = std::max(report.step_seconds, share.step_seconds);
  }
  report.slow_stage = find_slow_stage(report.busy_seconds);
}

runtime::Task<Result<std::vector<StageShare>>> gather_stages(runtime::Runtime& rt, comm::Group& group,
                                                             StageShare mine) {
  std::vector<StageShare> shares;
  if (rt.is_phantom()) co_return shares;
  const auto n = static_cast<std::int64_t>(kFields);
  const std::array<double, kFields> numbers = {static_cast<double>(mine.stage), mine.busy_seconds,
                                               mine.step_seconds, mine.kept_bytes};
  const std::vector<double> zeros(kFields * static_cast<std::size_t>(group.world()), 0.0);
  const Tensor block = Tensor::from<double>(numbers, {n});
  const Tensor all = Tensor::from<double>(zeros, {n * group.world()});
  comm::Call call;
  call.slot = plan::kSlotShares;
  call.iteration = kStageShares;
  call.label = "shares of stages";
  const Status status = co_await group.allgather(std::move(call), block, all);
  if (!status.ok()) co_return status;
  for (int r = 0; r < group.world(); ++r) {
    const double* at = all.data<double>() + r * n;
    shares.push_back({static_cast<int>(at[0]), at[1], at[2], at[3]});
  }
  co_return shares;
}

void add_to_json(const PipelineReport& report, Json& summary) {
  summary["pipeline"] = report.kind;
  summary["stages"] = report.stages;
  if (report.virtual_stages > 1) summary["virtual_stages"] = report.virtual_stages;
  summary["segments"] = report.segments;
  summary["micro_batches"] = report.micro_batches;
  summary["predicted_bubble_fraction"] = report.predicted_bubble_fraction;
  summary["weight_versions"] = report.weight_versions;
  if (report.of_ranks.empty()) return;
  summary["bubble_fraction"] = report.bubble_fraction();
  summary["stage_seconds"] = report.busy_seconds;
  summary["kept_bytes_per_stage"] = report.kept_bytes;
  summary["slow_stage"] = report.slow_stage < 0 ? Json() : Json(report.slow_stage);
  if (!summary.contains("per_worker")) return;
  Json& workers = summary["per_worker"];
  if (workers.size() != report.of_ranks.size()) return;  // some have several ranks
  for (std::size_t r = 0; r < report.of_ranks.size(); ++r) {
    workers[r]["stage"] = report.of_ranks[r].stage;
    workers[r]["bubble_fraction"] = bubble_fraction(report.of_ranks[r]);
  }
}

}  // namespace trireme::record
