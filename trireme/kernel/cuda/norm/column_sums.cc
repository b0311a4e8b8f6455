#include "trireme/kernel/cuda/norm/column_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace trireme::kernel::cuda {

extern const char kColumnSumsText[];  // column_sums.cu

namespace {

std::int64_t lanes_for(std::int64_t columns, std::int64_t vector) {
  const auto vectors = static_cast<std::uint64_t>((columns + vector - 1) / vector);
  return static_cast<std::int64_t>(std::bit_ceil(std::clamp<std::uint64_t>(vectors, 1, 32)));
}

}  // namespace

ColumnPlan plan_column_sums(std::int64_t rows, std::int64_t columns, std::int64_t vector, std::int64_t wide) {
  ColumnPlan plan{rows, columns, wide, lanes_for(columns, wide)};
  // About a thousand blocks, none with less than a few rounds of its threads.
  const std::int64_t most = std::max<std::int64_t>(rows / (4 * 256 / plan.lanes), 1);
  plan.parts = std::clamp<std::int64_t>(1024 / plan.across(), 1, most);
  plan.vector = vector;  // with as many lanes, so that the order is the same
  return plan;
}

std::string column_text(const ColumnPlan& p) {
  return fmt::format(
      "constexpr int V = {};\nconstexpr u32 ROWS = {}, CHANNELS = {}, PARTS = {}, LANES = {};\n{}", p.vector,
      p.rows, p.columns, p.parts, p.lanes, kColumnSumsText);
}

}  // namespace trireme::kernel::cuda
