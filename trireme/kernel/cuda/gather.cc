// Rows by their indices: gather and embedding. Out of range gives zeros.
#include <fmt/format.h>

#include "trireme/kernel/cuda/array.h"
#include "trireme/op/array/array.h"

namespace trireme::kernel::cuda {
namespace {

// y[o, j, :] = x[o, ids[j], :]: rows of WIDTH vectors; sizes are constants, so divisions are multiplications.
constexpr const char* kText = R"cuda(
typedef $vector Vector;
typedef $index index;
constexpr index WIDTH = $width, COUNT = $count;
constexpr i64 ROWS = $rows;
extern "C" __global__ void __launch_bounds__(256) gather(const Vector* x, const $id* ids, Vector* y, index n) {
  const index i = first_index();
  if (i < n) {
    const index row = i / WIDTH, at = i % WIDTH;
    const i64 id = ids[row % COUNT];
    Vector v = {};
    if (id >= 0 && id < ROWS) v = x[((i64)(row / COUNT) * ROWS + id) * WIDTH + at];
    y[i] = v;
  }
}
)cuda";

Made make_rows(const CudaQuery& q, int axis) {
  const TensorType &x = q.inputs[0], &y = q.outputs[0];
  if (y.num_bytes() == 0) return make_nothing();
  const auto size = static_cast<std::int64_t>(dtype_size(x.dtype));
  std::int64_t row_bytes = size;
  for (int d = axis + 1; d < x.shape.rank(); ++d) row_bytes *= x.shape[d];
  const std::int64_t count = q.inputs[1].shape.num_elems();
  // Whole vectors where rows are made of them, else elements; pointers may be less aligned than that.
  const bool narrow = y.num_bytes() < std::size_t{1} << 31;
  const auto function = [&](std::int64_t bytes) {
    return q.device.function(with(kText, {{"vector", bytes == 16 ? "Pack<u32, 4>" : word_of(x.dtype).memory},
                                          {"index", narrow ? "u32" : "u64"},
                                          {"width", std::to_string(row_bytes / bytes)},
                                          {"count", std::to_string(count)},
                                          {"rows", std::to_string(x.shape[axis])},
                                          {"id", cuda_type(q.inputs[1].dtype)}}),
                             "gather");
  };
  const std::int64_t vector = row_bytes % 16 == 0 ? 16 : size;
  TR_ASSIGN_OR_RETURN(const Function* fast, function(vector));
  TR_ASSIGN_OR_RETURN(const Function* slow, function(size));
  const auto bytes = static_cast<std::int64_t>(y.num_bytes());
  return make_kernel([fast, slow, bytes, vector, size, narrow](const CudaArgs& a) -> Status {
    const auto address = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()); };
    const bool aligned = (address(a.in(0)) | address(a.out(0))) % static_cast<std::uintptr_t>(vector) == 0;
    const std::int64_t n = bytes / (aligned ? vector : size);
    const Function& f = aligned ? *fast : *slow;
    const Dim grid{blocks_for(n, 256, 1, 0x7fffffffU)};
    const auto run = [&](auto count) {
      return launch(a.stream, f, grid, {256}, 0, a.in(0).raw(), a.in(1).raw(), a.out(0).raw(), count);
    };
    return narrow ? run(static_cast<std::uint32_t>(n)) : run(static_cast<std::uint64_t>(n));
  });
}

}  // namespace

Made make_gather(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const int axis, op::detail::resolve_axis("axis", q.attrs.get_int("axis"), q.inputs[0]));
  return make_rows(q, axis);
}

Made make_embedding(const CudaQuery& q) { return make_rows(q, 0); }

}  // namespace trireme::kernel::cuda
