#include <array>

#include "trireme/collective/applicable.h"

namespace trireme::collective {

// Each is defined in a file of its own.
extern const Algorithm kRing, kFixedTree, kBinomialAllreduce, kButterfly, kRabenseifner, kChain,
    kHierarchical, kLinear, kOneShot, kTwoShot, kBinomialReduce, kBinomial, kDirectGather, kDirectScatter,
    kRingAllgather, kBruck, kRingReduceScatter, kFixedTreeReduceScatter, kDirectAllToAll, kDirectNeighbours,
    kDissemination;

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
                                    kBruck,
                                    kRingReduceScatter,
                                    kFixedTreeReduceScatter,
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

std::vector<const Algorithm*> algorithms_of(Kind kind) {
  std::vector<const Algorithm*> rows;
  for (const Algorithm& a : algorithm_table())
    if (a.kind == kind) rows.push_back(&a);
  return rows;
}

}  // namespace trireme::collective
