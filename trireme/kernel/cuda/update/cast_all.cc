// cast_all: blocks of some thousand elements each, of up to 64 tensors per launch.
#include <fmt/format.h>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/expressions.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

constexpr int kMostTensors = 64, kThreads = 256;
constexpr std::int64_t kEach = 8192;  // elements of a block

constexpr const char* kText = R"cuda(
constexpr int V = 4, U = EACH / (256 * V);
struct Many { const T* from[64]; Y* to[64]; i64 n[64]; u32 first[65]; };
// Blocks first[i]... before first[i + 1] have tensor i.
extern "C" __global__ void __launch_bounds__(256) cast_all(const __grid_constant__ Many many) {
  int i = 0;
#pragma unroll
  for (int half = 32; half > 0; half /= 2)
    if (many.first[i + half] <= blockIdx.x) i += half;
  const i64 start = (i64)(blockIdx.x - many.first[i]) * EACH, n = many.n[i] - start;
  const T* from = many.from[i] + start;
  Y* to = many.to[i] + start;
  if (n >= EACH && (u64)from % sizeof(Pack<T, V>) == 0 && (u64)to % sizeof(Pack<Y, V>) == 0) {
    Pack<T, V> x[U];
#pragma unroll
    for (int u = 0; u < U; ++u) x[u] = *(const Pack<T, V>*)(from + (u * 256 + threadIdx.x) * V);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      Pack<Y, V> y;
#pragma unroll
      for (int v = 0; v < V; ++v) y.v[v] = one(x[u].v[v]);
      *(Pack<Y, V>*)(to + (u * 256 + threadIdx.x) * V) = y;
    }
    return;
  }
  for (i64 k = threadIdx.x; k < EACH && k < n; k += 256) to[k] = one(from[k]);
}
)cuda";

struct Many {  // as in the text
  void *from[kMostTensors] = {}, *to[kMostTensors] = {};
  std::int64_t n[kMostTensors] = {};
  unsigned first[kMostTensors + 1] = {};
};

}  // namespace

Made make_cast_all(const CudaQuery& q) {
  const DType from = q.inputs[0].dtype, to = q.attrs.get_dtype("dtype");
  std::vector<std::int64_t> sizes;
  for (const TensorType& t : q.inputs) {
    if (t.dtype != from)
      return error(Code::kNotFound, "[kernel] op cast_all has no CUDA kernel for {} beside {}",
                   dtype_name(from), dtype_name(t.dtype));
    sizes.push_back(t.shape.num_elems());
  }
  const Scalar x = scalar_of(from), y = scalar_of(to);
  const std::string text = fmt::format(
      "typedef {} T;\ntypedef {} Y;\nconstexpr int EACH = {};\n{}"
      "inline {} cast({} a) {{\n  typedef {} A;\n  typedef {} R;\n  {}\n}}\n"
      "inline Y one(T v) {{ return {}; }}\n{}",
      x.memory, y.memory, kEach, expression_support(), y.compute, x.compute, x.compute, y.compute,
      cast_expression(from, to), y.store("cast(" + x.load("v") + ")"), kText);
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "cast_all"));
  return make_kernel([f, sizes](const CudaArgs& a) -> Status {
    Many many;
    int count = 0;
    const auto send = [&]() -> Status {
      const unsigned blocks = many.first[count];
      for (int i = count; i < kMostTensors; ++i) many.first[i + 1] = blocks;
      count = 0;
      return blocks == 0 ? ok_status() : launch(a.stream, *f, {blocks}, {kThreads}, 0, many);
    };
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      many.from[count] = a.inputs[i].raw();
      many.to[count] = a.outputs[i].raw();
      many.n[count] = sizes[i];
      many.first[count + 1] = many.first[count] + static_cast<unsigned>((sizes[i] + kEach - 1) / kEach);
      if (++count == kMostTensors) TR_RETURN_IF_ERROR(send());
    }
    return send();
  });
}

}  // namespace trireme::kernel::cuda
