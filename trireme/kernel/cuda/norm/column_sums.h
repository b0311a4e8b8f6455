// Sums of the columns of a matrix, for kernels that read its rows anyway. A block of 256 threads has LANES
// vectors of V columns and takes turns with the rows of its part, DOWN at once; parts are added in order by a
// second kernel. The order of the sums depends on the shape alone.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::kernel::cuda {

struct ColumnPlan {
  std::int64_t rows = 0, columns = 0;
  std::int64_t vector = 1, lanes = 32;
  std::int64_t parts = 1;
  unsigned across() const { return static_cast<unsigned>((columns + lanes * vector - 1) / (lanes * vector)); }
  bool joins() const { return parts > 1; }
};
// `vector`: columns that a thread has; the parts are those of a plan of `wide` columns per thread.
ColumnPlan plan_column_sums(std::int64_t rows, std::int64_t columns, std::int64_t vector, std::int64_t wide);

// ROWS, CHANNELS, PARTS, EACH (rows of a part), LANES, DOWN, V; channel(), first_row(), end_row(),
// put_columns(sums, parts, y), and the kernel `join`. Wants the types A (sums) and Y (results), and
// finish(A) -> Y, defined before.
std::string column_text(const ColumnPlan& plan);

}  // namespace trireme::kernel::cuda
