// bias_grad: sums over all dimensions but 1, of x seen as [batch, channels, inner].
//
// Blocks add up a part of the batch each, in a fixed order; a second kernel adds the parts in order. The
// number of parts depends on the shape alone. Integers are added up in 64 bits: the low ones wrap as they
// should.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/array.h"

namespace trireme::kernel::cuda {
namespace {

constexpr const char* kText = R"cuda(
typedef $memory T;
typedef $sum A;
constexpr int V = $vector;
constexpr u32 BATCH = $batch, CHANNELS = $channels, WIDTH = $width, PARTS = $parts;
constexpr u32 EACH = (BATCH + PARTS - 1) / PARTS;
typedef $raw Raw;  // a vector as it comes from memory: taken apart only when it is added
inline T finish(A v) { return $finish; }

// inner is 1: a lane has V channels, the 8 warps of a block take turns with the rows of its part.
extern "C" __global__ void __launch_bounds__(256) columns(const T* x, A* parts, T* y) {
  __shared__ A warps[8][32 * V];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, channel = (blockIdx.x * 32 + lane) * V;
  const u32 begin = blockIdx.y * EACH, end = begin + EACH < BATCH ? begin + EACH : BATCH;
  A sums[V] = {};
  if (channel < CHANNELS) {
    for (u32 row = begin + warp; row < end; row += 32) {
      Raw rows[4] = {};
#pragma unroll
      for (int t = 0; t < 4; ++t)
        if (row + t * 8 < end) rows[t] = *(const Raw*)(x + (u64)(row + t * 8) * CHANNELS + channel);
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const Pack<T, V> v = *(const Pack<T, V>*)&rows[t];  // zeros beyond the end
#pragma unroll
        for (int k = 0; k < V; ++k) sums[k] += (A)load_acc(v.v[k]);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < V; ++k) warps[warp][k * 32 + lane] = sums[k];
  __syncthreads();
  for (u32 i = threadIdx.x; i < 32 * V; i += 256) {
    A total = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) total += warps[w][i];
    const u32 c = (blockIdx.x * 32 + i % 32) * V + i / 32;
    if (c >= CHANNELS) continue;
    if (PARTS == 1) y[c] = finish(total);
    else parts[(u64)blockIdx.y * CHANNELS + c] = total;
  }
}

// inner is WIDTH vectors: a block has one channel of its part of the batch.
extern "C" __global__ void __launch_bounds__(256) planes(const T* x, A* parts, T* y) {
  const u32 channel = blockIdx.x, begin = blockIdx.y * EACH;
  const u32 images = begin >= BATCH ? 0 : begin + EACH < BATCH ? EACH : BATCH - begin;
  const Raw* from = (const Raw*)x;
  A sum = 0;
  for (u32 first = threadIdx.x; first < images * WIDTH; first += 1024) {
    Raw some[4] = {};
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const u32 i = first + t * 256;
      if (i < images * WIDTH)
        some[t] = from[((u64)(begin + i / WIDTH) * CHANNELS + channel) * WIDTH + i % WIDTH];
    }
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const Pack<T, V> v = *(const Pack<T, V>*)&some[t];
#pragma unroll
      for (int k = 0; k < V; ++k) sum += (A)load_acc(v.v[k]);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  if (PARTS == 1) y[channel] = finish(sum);
  else parts[(u64)blockIdx.y * CHANNELS + channel] = sum;
}

extern "C" __global__ void __launch_bounds__(256) join(const A* parts, T* y) {
  const u32 c = first_index();
  if (c >= CHANNELS) return;
  A total = 0;
#pragma unroll 8
  for (u32 p = 0; p < PARTS; ++p) total += parts[(u64)p * CHANNELS + c];
  y[c] = finish(total);
}
)cuda";

struct Sizes {
  std::int64_t batch, channels, inner;
};

struct Variant {
  const Function *sum, *join;
  unsigned blocks;
};

Result<Variant> make_variant(CudaDevice& device, const Sizes& s, DType dtype, std::int64_t vector,
                             std::int64_t parts) {
  const Scalar scalar = scalar_of(dtype);
  const bool whole = !is_floating(dtype);
  const bool columns = s.inner == 1;
  const std::string text = with(kText, {{"memory", scalar.memory},
                                        {"sum", whole ? "u64" : scalar.compute},
                                        {"raw", vector > 1 ? "Pack<u32, 4>" : word_of(dtype).memory},
                                        {"vector", std::to_string(vector)},
                                        {"batch", std::to_string(s.batch)},
                                        {"channels", std::to_string(s.channels)},
                                        {"width", std::to_string(columns ? 1 : s.inner / vector)},
                                        {"parts", std::to_string(parts)},
                                        {"finish", scalar.is_half ? scalar.store("v") : "(T)v"}});
  Variant out{};
  TR_ASSIGN_OR_RETURN(out.sum, device.function(text, columns ? "columns" : "planes"));
  TR_ASSIGN_OR_RETURN(out.join, device.function(text, "join"));
  out.blocks = static_cast<unsigned>(columns ? (s.channels + 32 * vector - 1) / (32 * vector) : s.channels);
  return out;
}

}  // namespace

Made make_bias_grad(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
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
  const bool whole = (s.inner == 1 ? s.channels : s.inner) % vector == 0;
  // About a thousand blocks, none with less than a few rounds of its threads.
  const std::int64_t across = s.inner == 1 ? (s.channels + 32 * vector - 1) / (32 * vector) : s.channels;
  const std::int64_t most = s.inner == 1 ? s.batch / 32 : s.batch * s.inner / 4096;
  const std::int64_t parts =
      std::clamp<std::int64_t>(1024 / across, 1, std::clamp<std::int64_t>(most, 1, s.batch));
  TR_ASSIGN_OR_RETURN(const Variant slow, make_variant(q.device, s, x.dtype, 1, parts));
  TR_ASSIGN_OR_RETURN(const Variant fast, make_variant(q.device, s, x.dtype, whole ? vector : 1, parts));
  const std::size_t sum_bytes = x.dtype == DType::kF64 || !is_floating(x.dtype) ? 8 : 4;
  const std::uintptr_t alignment = whole ? 16 : 1;
  const auto channels = s.channels;
  return make_kernel(
      [slow, fast, parts, alignment, channels](const CudaArgs& a) -> Status {
        std::byte *from = a.in(0).raw(), *sums = a.workspace, *y = a.out(0).raw();
        const Variant& v = reinterpret_cast<std::uintptr_t>(from) % alignment == 0 ? fast : slow;
        TR_RETURN_IF_ERROR(
            launch(a.stream, *v.sum, {v.blocks, static_cast<unsigned>(parts)}, {256}, 0, from, sums, y));
        if (parts == 1) return ok_status();
        return launch(a.stream, *v.join, {blocks_for(channels, 256)}, {256}, 0, sums, y);
      },
      parts == 1 ? 0 : static_cast<std::size_t>(parts * s.channels) * sum_bytes);
}

}  // namespace trireme::kernel::cuda
