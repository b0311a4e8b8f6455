#include "trireme/comm/sum/gradient_sum.h"

namespace trireme::comm {

// Each is defined in the file of its name.
extern const SumRow kTreeSum, kGatherSum, kSplitSum, kSparseSum, kDoublingSum, kLowRankSum, kFactorSum,
    kLocalSum;

std::span<const SumRow> sum_table() {
  static const SumRow kRows[] = {kTreeSum,     kGatherSum,  kSplitSum,  kSparseSum,
                                 kDoublingSum, kLowRankSum, kFactorSum, kLocalSum};
  return kRows;
}

Result<const SumRow*> find_sum(std::string_view name) {
  std::string known;
  for (const SumRow& row : sum_table()) {
    if (name == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[comm] no sum is called '{}'; expected one of: {}", name, known);
}

}  // namespace trireme::comm
