#include <algorithm>
#include <array>

#include "trireme/collective/algorithms.h"

namespace trireme::collective {

std::span<const Algorithm> algorithm_table() {
  static const std::array kTable = {kRing,
                                    kFixedTree,
                                    kBinomialAllreduce,
                                    kButterfly,
                                    kRabenseifner,
                                    kChain,
                                    kHierarchical,
                                    kLinear,
                                    kOneShot,
                                    kTwoShot,
                                    kBinomialReduce,
                                    kBinomial,
                                    kDirectGather,
                                    kDirectScatter,
                                    kRingAllgather,
                                    kRingReduceScatter,
                                    kDirectAllToAll,
                                    kDirectNeighbours,
                                    kDissemination};
  return kTable;
}

Status one_input_per_rank(const ScheduleSpec& spec) {
  if (spec.leaf_runs.empty()) return {};
  return error(Code::kInvalid,
               "[collective] this algorithm adds one input per rank: got {} leaf runs, expected none; use "
               "fixed-tree",
               spec.leaf_runs.size());
}

Result<const Algorithm*> find_algorithm(Kind kind, std::string_view name) {
  std::string known;
  for (const Algorithm& a : algorithm_table()) {
    if (a.kind != kind) continue;
    if (a.name == name) return &a;
    known += known.empty() ? a.name : fmt::format(", {}", a.name);
  }
  return error(Code::kNotFound, "[collective] no {} algorithm '{}'; there are: {}", kind_name(kind), name,
               known);
}

Result<const Algorithm*> select_algorithm(const ScheduleSpec& spec, const cost::LinkModel& link,
                                          const cost::MachineModel& machine) {
  TR_RETURN_IF_ERROR(check_spec(spec));
  const Algorithm* best = nullptr;
  TimeNs best_time = 0;
  Status why_not;
  for (const Algorithm& a : algorithm_table()) {
    if (a.kind != spec.kind) continue;
    if (Status s = a.applicable(spec); !s.ok()) {
      why_not = s;
      continue;
    }
    const TimeNs time = price_time(a.price(spec), link, machine);
    if (best == nullptr || time < best_time) {
      best = &a;
      best_time = time;
    }
  }
  if (best != nullptr) return best;
  if (!why_not.ok()) return why_not;
  return error(Code::kNotFound, "[collective] no algorithm for {}", kind_name(spec.kind));
}

}  // namespace trireme::collective
