// bias_grad: sums over all dimensions but 1, of x seen as [batch, channels, inner].
//
// Blocks add up a part of the batch each, in a fixed order; a second kernel adds the parts in order. The
// number of parts depends on the shape alone. Integers are added up in 64 bits: the low ones wrap as they
// should.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/array.h"
#include "trireme/kernel/cuda/norm/column_sums.h"

namespace trireme::kernel::cuda {

extern const char kBiasGradText[];  // bias_grad.cu

namespace {

struct Sizes {
  std::int64_t batch, channels, inner;
};

// columns, planes or shifted; a vector has `vector` elements.
struct Variant {
  const Function *sum, *join;
  unsigned blocks;
};

// dy may be narrower than the result: sums are formed in the wider of the two.
Scalar sum_scalar(DType x, DType y) {
  if (!is_floating(x)) return {"u64", "u64", 8, false};
  return scalar_of(x == DType::kF64 || y == DType::kF64 ? DType::kF64 : DType::kF32);
}

Result<Variant> make_variant(CudaDevice& device, const Sizes& s, DType x, DType y, const ColumnPlan& plan) {
  const std::int64_t vector = plan.vector;
  const Scalar result = scalar_of(y);
  const bool columns = s.inner == 1, shifted = !columns && s.inner % vector != 0;
  const std::int64_t width = columns ? 1 : shifted ? s.inner / vector + 2 : s.inner / vector;
  const std::string text = fmt::format(
      "typedef {} T;\ntypedef {} A;\ntypedef {} Y;\ntypedef {} Raw;\ninline Y finish(A v) {{ return {}; "
      "}}\n{}"
      "constexpr u32 INNER = {}, WIDTH = {};\n{}",
      scalar_of(x).memory, sum_scalar(x, y).memory, result.memory,
      vector > 1 ? "Pack<u32, 4>" : word_of(x).memory, result.is_half ? result.store("(float)v") : "(Y)v",
      column_text(plan), s.inner, width, kBiasGradText);
  Variant out{};
  TR_ASSIGN_OR_RETURN(out.sum, device.function(text, columns ? "columns" : shifted ? "shifted" : "planes"));
  TR_ASSIGN_OR_RETURN(out.join, device.function(text, "join"));
  out.blocks = columns ? plan.across() : static_cast<unsigned>(s.channels);
  return out;
}

}  // namespace

Made make_bias_grad(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const DType y = q.outputs[0].dtype;
  const std::int64_t n = x.shape.num_elems();
  const std::size_t bytes = q.outputs[0].num_bytes();
  if (n == 0)
    return make_kernel(
        [bytes](const CudaArgs& a) -> Status { return clear_memory(a.stream, a.out(0).raw(), bytes); });
  const Sizes s{x.shape[0], x.shape[1], n / (x.shape[0] * x.shape[1])};
  if (n >= std::int64_t{1} << 32)
    return error(Code::kInvalid,
                 "[kernel] op bias_grad on the GPU: got {}, expected fewer than 2^32 elements",
                 x.to_string());
  const std::int64_t vector = 16 / static_cast<std::int64_t>(dtype_size(x.dtype));
  const bool whole = s.inner == 1 ? s.channels % vector == 0 : s.inner % vector == 0 || s.inner >= 4 * vector;
  const std::int64_t wide = whole ? vector : 1;
  ColumnPlan plan = plan_column_sums(s.batch, s.channels, 1, wide);
  if (s.inner > 1)  // about a thousand blocks, none with less than a few rounds of its threads
    plan.parts = std::clamp<std::int64_t>(1024 / s.channels, 1,
                                          std::clamp<std::int64_t>(s.batch * s.inner / 4096, 1, s.batch));
  const std::int64_t parts = plan.parts;
  TR_ASSIGN_OR_RETURN(const Variant slow, make_variant(q.device, s, x.dtype, y, plan));
  plan.vector = wide;
  TR_ASSIGN_OR_RETURN(const Variant fast, make_variant(q.device, s, x.dtype, y, plan));
  const auto sum_bytes = static_cast<std::size_t>(sum_scalar(x.dtype, y).size);
  const std::uintptr_t alignment = whole ? 16 : 1;
  const auto channels = s.channels;
  return make_kernel(
      [slow, fast, parts, alignment, channels](const CudaArgs& a) -> Status {
        std::byte *from = a.in(0).raw(), *sums = a.workspace, *to = a.out(0).raw();
        const Variant& v = reinterpret_cast<std::uintptr_t>(from) % alignment == 0 ? fast : slow;
        TR_RETURN_IF_ERROR(
            launch(a.stream, *v.sum, {v.blocks, static_cast<unsigned>(parts)}, {256}, 0, from, sums, to));
        if (parts == 1) return ok_status();
        return launch(a.stream, *v.join, {blocks_for(channels, 32)}, {256}, 0, sums, to);
      },
      parts == 1 ? 0 : static_cast<std::size_t>(parts * s.channels) * sum_bytes);
}

}  // namespace trireme::kernel::cuda
