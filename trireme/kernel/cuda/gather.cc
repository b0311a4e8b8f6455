// Rows by their indices: gather and embedding; out of range gives zeros. The rows of a position: take_part.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/array.h"
#include "trireme/op/array/array.h"

namespace trireme::kernel::cuda {

extern const char kGatherText[], kTakePartText[];  // gather.cu

namespace {

// A kernel of (from, which, to, number) with a thread for each of `vector` elements of the result, or for one
// where pointers are less aligned than that.
struct Pairs {
  const Function *fast, *slow;
  std::int64_t elems, vector;
  bool narrow;  // 32-bit numbers
};
Made make_pairs(const Pairs& p) {
  return make_kernel([p](const CudaArgs& a) -> Status {
    const auto address = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()); };
    const bool aligned = (address(a.in(0)) | address(a.out(0))) % 16 == 0;
    const std::int64_t n = p.elems / (aligned ? p.vector : 1);
    const Function& f = aligned ? *p.fast : *p.slow;
    const Dim grid{blocks_for(n, 256, 1, 0x7fffffffU)};
    const auto run = [&](auto count) {
      return launch(a.stream, f, grid, {256}, 0, a.in(0).raw(), a.in(1).raw(), a.out(0).raw(), count);
    };
    return p.narrow ? run(static_cast<std::uint32_t>(n)) : run(static_cast<std::uint64_t>(n));
  });
}

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
  return make_pairs({fast, slow, y.shape.num_elems(), vector, y.num_bytes() < std::size_t{1} << 31});
}

}  // namespace

Made make_gather(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const int axis, op::detail::resolve_axis("axis", q.attrs.get_int("axis"), q.inputs[0]));
  return make_rows(q, axis);
}

Made make_embedding(const CudaQuery& q) { return make_rows(q, 0); }

namespace {

// Where the parts begin, and the end of the last.
std::vector<std::int64_t> starts_of_parts(const CudaQuery& q, int dim) {
  const std::int64_t parts = q.attrs.get_int("parts");
  const std::vector<std::int64_t>& sizes = q.attrs.get_ints("sizes");
  std::vector<std::int64_t> starts{0};
  for (std::int64_t p = 0; p < parts; ++p)
    starts.push_back(starts.back() +
                     (sizes.empty() ? q.inputs[0].shape[dim] / parts : sizes[static_cast<std::size_t>(p)]));
  return starts;
}

}  // namespace

Made make_take_part(const CudaQuery& q) {
  const TensorType &x = q.inputs[0], &y = q.outputs[0];
  if (y.num_bytes() == 0) return make_nothing();
  TR_ASSIGN_OR_RETURN(const int dim, op::detail::resolve_axis("dim", q.attrs.get_int("dim"), x));
  std::int64_t row = 1;
  for (int d = dim + 1; d < x.shape.rank(); ++d) row *= x.shape[d];
  std::int64_t vector = 16 / static_cast<std::int64_t>(dtype_size(x.dtype));
  if (row % vector != 0) vector = 1;
  const std::vector<std::int64_t> starts = starts_of_parts(q, dim);
  const bool narrow = y.num_bytes() < std::size_t{1} << 31;
  const auto make = [&](std::int64_t n) {
    const std::string head = fmt::format(
        "typedef {} From;\ntypedef {} index;\nconstexpr index WIDTH = {}, COUNT = {};\nconstexpr i64 ROWS = "
        "{}, "
        "PARTS = {};\n__device__ const i64 starts[] = {{{}}};\n",
        n > 1 ? "Pack<u32, 4>" : word_of(x.dtype).memory, narrow ? "u32" : "u64", row / n, y.shape[dim],
        x.shape[dim], starts.size() - 1, fmt::join(starts, ", "));
    return q.device.function(head + kTakePartText, "take_part");
  };
  TR_ASSIGN_OR_RETURN(const Function* fast, make(vector));
  TR_ASSIGN_OR_RETURN(const Function* slow, make(1));
  return make_pairs({fast, slow, y.shape.num_elems(), vector, narrow});
}

}  // namespace trireme::kernel::cuda
