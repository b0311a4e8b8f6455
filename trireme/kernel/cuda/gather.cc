// Rows by their indices: gather and embedding. Out of range gives zeros.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/array.h"
#include "trireme/op/array/array.h"

namespace trireme::kernel::cuda {

extern const char kGatherText[];  // gather.cu

namespace {

// `vector` elements at a time.
Result<const Function*> make_function(const CudaQuery& q, int axis, std::int64_t row, std::int64_t vector) {
  const DType from = q.inputs[0].dtype, to = q.outputs[0].dtype;
  const auto pack = [vector](DType d) { return fmt::format("Pack<{}, {}>", cuda_type(d), vector); };
  const bool same = from == to;
  const std::string whole = vector > 1 ? "Pack<u32, 4>" : word_of(from).memory;
  const std::string head = fmt::format(
      "typedef {} From;\ntypedef {} To;\ntypedef {} Element;\ntypedef {} Id;\ntypedef {} index;\n"
      "constexpr bool kCasts = {};\nconstexpr index WIDTH = {}, COUNT = {};\nconstexpr i64 ROWS = {};\n",
      same ? whole : pack(from), same ? whole : pack(to), cuda_type(to), cuda_type(q.inputs[1].dtype),
      q.outputs[0].num_bytes() < std::size_t{1} << 31 ? "u32" : "u64", !same, row / vector,
      q.inputs[1].shape.num_elems(), q.inputs[0].shape[axis]);
  return q.device.function(head + kGatherText, "gather");
}

Made make_rows(const CudaQuery& q, int axis) {
  const TensorType &x = q.inputs[0], &y = q.outputs[0];
  if (y.num_bytes() == 0) return make_nothing();
  std::int64_t row = 1;
  for (int d = axis + 1; d < x.shape.rank(); ++d) row *= x.shape[d];
  // Whole vectors where rows are made of them, else elements; pointers may be less aligned than that.
  std::int64_t vector = 16 / static_cast<std::int64_t>(std::max(dtype_size(x.dtype), dtype_size(y.dtype)));
  if (row % vector != 0) vector = 1;
  TR_ASSIGN_OR_RETURN(const Function* fast, make_function(q, axis, row, vector));
  TR_ASSIGN_OR_RETURN(const Function* slow, make_function(q, axis, row, 1));
  const std::int64_t elems = y.shape.num_elems();
  const bool narrow = y.num_bytes() < std::size_t{1} << 31;
  return make_kernel([fast, slow, elems, vector, narrow](const CudaArgs& a) -> Status {
    const auto address = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()); };
    const bool aligned = (address(a.in(0)) | address(a.out(0))) % 16 == 0;
    const std::int64_t n = elems / (aligned ? vector : 1);
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
