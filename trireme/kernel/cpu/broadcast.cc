#include "trireme/kernel/cpu/broadcast.h"

namespace trireme::kernel {
namespace {

// Steps of a dense operand along the dimensions of `result`; 0 where it is broadcast.
std::array<std::int64_t, kMaxRank> steps_along(const Shape& operand, const Shape& result) {
  std::array<std::int64_t, kMaxRank> steps{};
  const int lead = result.rank() - operand.rank();
  std::int64_t step = 1;
  for (int d = result.rank() - 1; d >= lead; --d) {
    if (operand[d - lead] != 1) steps[static_cast<std::size_t>(d)] = step;
    step *= operand[d - lead];
  }
  return steps;
}

}  // namespace

Broadcast::Broadcast(const Shape& shape_a, const Shape& shape_b, const Shape& result) {
  const auto all_a = steps_along(shape_a, result), all_b = steps_along(shape_b, result);
  for (int d = 0; d < result.rank(); ++d) {
    const auto from = static_cast<std::size_t>(d);
    if (result[d] == 1) continue;
    const auto before = static_cast<std::size_t>(rank - 1);
    if (rank > 0 && a[before] == all_a[from] * result[d] && b[before] == all_b[from] * result[d]) {
      sizes[before] *= result[d];
      a[before] = all_a[from];
      b[before] = all_b[from];
      continue;
    }
    const auto to = static_cast<std::size_t>(rank++);
    sizes[to] = result[d];
    a[to] = all_a[from];
    b[to] = all_b[from];
  }
  if (rank == 0) sizes[0] = rank = 1;
}

}  // namespace trireme::kernel
