// batch_norm, its gradient and batch_norm_inference over [rows, channels], channels fastest: batches of
// vectors, and images with the channels last. A thread has kPack neighbouring channels and walks down rows,
// so what belongs to a channel is read once; blocks x over channels, blocks y over parts of the rows. Sums as
// in norm_batch.cc.
#include <algorithm>

#include "trireme/kernel/cuda/norm.h"
#include "trireme/kernel/cuda/reduce_text.h"

namespace trireme::kernel::cuda {
namespace {

constexpr const char* kColumnsText = R"cuda(
struct Columns { i64 rows, channels, part, num_parts; };
constexpr int kDown = 256 / kAcross;  // threads y; kAcross: threads x
__device__ __forceinline__ i64 channel_index() { return ((i64)blockIdx.x * kAcross + threadIdx.x) * kPack; }
// use(load(offset), offset) for the rows of this thread in part `which`, in order; four loads are in flight.
template <class Load, class Use>
__device__ __forceinline__ void each_row(const Columns& s, i64 which, Load load, Use use) {
  const i64 begin = which * s.part, end = begin + s.part < s.rows ? begin + s.part : s.rows;
  i64 at = (begin + threadIdx.y) * s.channels + channel_index();
  const i64 stop = end * s.channels, step = kDown * s.channels;
  for (; at + 3 * step < stop; at += 4 * step) {
    decltype(load(at)) p[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) p[u] = load(at + u * step);
#pragma unroll
    for (int u = 0; u < 4; ++u) use(p[u], at + u * step);
  }
  for (; at < stop; at += step) use(load(at), at);
}
// The second walk goes backwards: what the first one read last is still in the cache.
__device__ __forceinline__ i64 backwards() { return (i64)gridDim.y - 1 - blockIdx.y; }
template <class E> __device__ __forceinline__ void load_values(A* to, const E* from) {
#pragma unroll
  for (int v = 0; v < kPack; ++v) to[v] = widen(from[v]);
}
// Adds up over threads y; parts: [num_parts][2][channels].
__device__ __forceinline__ void put_sums(A* parts, const Columns& s, const A* a, const A* b) {
  __shared__ A sums[2][kDown][kAcross * kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    sums[0][threadIdx.y][v * kAcross + threadIdx.x] = a[v];
    sums[1][threadIdx.y][v * kAcross + threadIdx.x] = b[v];
  }
  __syncthreads();
  const i64 c = channel_index();
  if (threadIdx.y > 1 || c >= s.channels) return;
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    A total = 0;
    for (int k = 0; k < kDown; ++k) total += sums[threadIdx.y][k][v * kAcross + threadIdx.x];
    parts[((i64)blockIdx.y * 2 + threadIdx.y) * s.channels + c + v] = total;
  }
}
// The sums of a channel over all parts, for threads y = 0; threads x along channels, threads y over parts.
__device__ __forceinline__ bool get_sums(const A* parts, const Columns& s, i64 c, A& a, A& b) {
  __shared__ A sums[2][32][33];
  a = b = 0;
  if (c < s.channels)
    for (i64 k = threadIdx.y; k < s.num_parts; k += 32) {
      a += parts[k * 2 * s.channels + c];
      b += parts[(k * 2 + 1) * s.channels + c];
    }
  sums[0][threadIdx.y][threadIdx.x] = a;
  sums[1][threadIdx.y][threadIdx.x] = b;
  __syncthreads();
  if (threadIdx.y != 0 || c >= s.channels) return false;
  for (int k = 1; k < 32; ++k) {
    a += sums[0][k][threadIdx.x];
    b += sums[1][k][threadIdx.x];
  }
  return true;
}
)cuda";

// table: mean and inv per channel.
constexpr const char* kForwardText = R"cuda(
template <bool kAligned> __device__ __forceinline__ void add_rows(const T* x, const Columns& s, A* sum, A* square) {
  A shift[kPack];
  load_values(shift, x + channel_index());
  each_row(
      s, blockIdx.y, [&](i64 at) { return load_pack<kAligned>(x + at); },
      [&](const Packed& p, i64) {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A off = widen(p.v[v]) - shift[v];
          sum[v] += off;
          square[v] += off * off;
        }
      });
}
extern "C" __global__ void column_sums(const T* x, A* parts, Columns s) {
  A sum[kPack], square[kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) sum[v] = square[v] = 0;
  if (channel_index() < s.channels) {
    if (is_aligned(x)) add_rows<true>(x, s, sum, square);
    else add_rows<false>(x, s, sum, square);
  }
  put_sums(parts, s, sum, square);
}

extern "C" __global__ void column_stats(const T* x, const A* parts, A* table, M* means, V* vars, Columns s, double eps) {
  const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
  A sum, square, mean = 0, var = 0;
  if (!get_sums(parts, s, c, sum, square)) return;
  if (s.rows > 0) {
    const A off = sum / (A)s.rows;
    mean = widen(x[c]) + off;
    var = square / (A)s.rows - off * off;
    if (var < 0) var = 0;
  }
  means[c] = narrow<M>(mean);
  vars[c] = narrow<V>(var);
  table[c] = mean;
  table[s.channels + c] = (A)1 / root_of(var + (A)eps);
}

template <bool kAligned>
__device__ __forceinline__ void apply(const T* x, const A* table, const S* scale, const B* bias, Y* y, const Columns& s) {
  const i64 c = channel_index();
  A gain[kPack], shift[kPack], mean[kPack], inv[kPack];
  load_values(gain, scale + c);
  load_values(shift, bias + c);
  load_values(mean, table + c);
  load_values(inv, table + s.channels + c);
  each_row(
      s, backwards(), [&](i64 at) { return load_pack<kAligned>(x + at); },
      [&](const Packed& p, i64 at) {
        Pack<Y, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v)
          out.v[v] = narrow<Y>((widen(p.v[v]) - mean[v]) * inv[v] * gain[v] + shift[v]);
        store_pack<kAligned>(y + at, out);
      });
}
extern "C" __global__ void column_apply(const T* x, const A* table, const S* scale, const B* bias, Y* y, Columns s) {
  if (channel_index() >= s.channels) return;
  if (is_aligned(x) && is_aligned(y)) apply<true>(x, table, scale, bias, y, s);
  else apply<false>(x, table, scale, bias, y, s);
}
)cuda";

// table: inv, mean(g), mean(g xh) inv per channel, so that dx = inv (g - table 1 - (x - mean) table 2), g =
// dy scale.
constexpr const char* kGradText = R"cuda(
struct Pair { Packed x; Pack<D, kPack> dy; };
template <bool kAligned> __device__ __forceinline__ Pair load_pair(const T* x, const D* dy) {
  return {load_pack<kAligned>(x), load_pack<kAligned>(dy)};
}
template <bool kAligned>
__device__ __forceinline__ void add_rows(const T* x, const M* means, const D* dy, const Columns& s, A* sum, A* dot) {
  A mean[kPack];
  load_values(mean, means + channel_index());
  each_row(
      s, blockIdx.y, [&](i64 at) { return load_pair<kAligned>(x + at, dy + at); },
      [&](const Pair& p, i64) {
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const A dv = widen(p.dy.v[v]);
          sum[v] += dv;
          dot[v] += dv * (widen(p.x.v[v]) - mean[v]);
        }
      });
}
extern "C" __global__ void column_sums(const T* x, const M* means, const D* dy, A* parts, Columns s) {
  A sum[kPack], dot[kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) sum[v] = dot[v] = 0;
  if (channel_index() < s.channels) {
    if (is_aligned(x) && is_aligned(dy)) add_rows<true>(x, means, dy, s, sum, dot);
    else add_rows<false>(x, means, dy, s, sum, dot);
  }
  put_sums(parts, s, sum, dot);
}

extern "C" __global__ void column_stats(const A* parts, const S* scale, const V* vars, A* table, G* dscale, H* dbias,
                                        Columns s, double eps) {
  const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
  A sum, dot;
  if (!get_sums(parts, s, c, sum, dot)) return;
  const A inv = (A)1 / root_of(widen(vars[c]) + (A)eps), gain = widen(scale[c]);
  dot *= inv;
  dscale[c] = narrow<G>(dot);
  dbias[c] = narrow<H>(sum);
  table[c] = inv;
  table[s.channels + c] = sum * gain / (A)s.rows;
  table[2 * s.channels + c] = dot * gain / (A)s.rows * inv;
}

template <bool kAligned>
__device__ __forceinline__ void apply(const T* x, const A* table, const S* scale, const M* means, const D* dy, X* dx,
                                      const Columns& s) {
  const i64 c = channel_index();
  A gain[kPack], mean[kPack], inv[kPack], sum[kPack], dot[kPack];
  load_values(gain, scale + c);
  load_values(mean, means + c);
  load_values(inv, table + c);
  load_values(sum, table + s.channels + c);
  load_values(dot, table + 2 * s.channels + c);
  each_row(
      s, backwards(), [&](i64 at) { return load_pair<kAligned>(x + at, dy + at); },
      [&](const Pair& p, i64 at) {
        Pack<X, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v)
          out.v[v] = narrow<X>(
              inv[v] * (widen(p.dy.v[v]) * gain[v] - sum[v] - (widen(p.x.v[v]) - mean[v]) * dot[v]));
        store_pack<kAligned>(dx + at, out);
      });
}
extern "C" __global__ void column_apply(const T* x, const A* table, const S* scale, const M* means, const D* dy, X* dx,
                                        Columns s) {
  if (channel_index() >= s.channels) return;
  if (is_aligned(x) && is_aligned(dy) && is_aligned(dx)) apply<true>(x, table, scale, means, dy, dx, s);
  else apply<false>(x, table, scale, means, dy, dx, s);
}
)cuda";

constexpr const char* kInferenceText = R"cuda(
extern "C" __global__ void column_apply(const T* x, const S* scale, const B* bias, const M* means, const V* vars, Y* y,
                                        Columns s, double eps) {
  const i64 c = channel_index();
  if (c >= s.channels) return;
  const bool aligned = is_aligned(x) && is_aligned(y);
  A gain[kPack], shift[kPack], mean[kPack], var[kPack];
  load_values(gain, scale + c);
  load_values(shift, bias + c);
  load_values(mean, means + c);
  load_values(var, vars + c);
#pragma unroll
  for (int v = 0; v < kPack; ++v) gain[v] = gain[v] / root_of(var[v] + (A)eps);
  each_row(
      s, backwards(), [&](i64 at) { return load_pack(x + at, aligned); },
      [&](const Packed& p, i64 at) {
        Pack<Y, kPack> out;
#pragma unroll
        for (int v = 0; v < kPack; ++v) out.v[v] = narrow<Y>((widen(p.v[v]) - mean[v]) * gain[v] + shift[v]);
        store_pack(y + at, out, aligned);
      });
}
)cuda";

struct Columns {  // as in the text
  std::int64_t rows, channels, part, num_parts;
};

struct ColumnsPlan {
  Columns s{};
  int pack = 1;
  Dim grid, block;
  const Function *sums = nullptr, *stats = nullptr, *apply = nullptr;
  std::int64_t table_at() const { return s.num_parts * 2 * s.channels; }  // in the workspace, in elements
  std::size_t bytes() const { return static_cast<std::size_t>(table_at() + 3 * s.channels) * sizeof(double); }
  std::size_t table_bytes() const { return static_cast<std::size_t>(table_at()) * sizeof(double); }
  Dim stats_grid() const { return {blocks_for(s.channels, 32)}; }
};

// Some 1,024 blocks, each with at least 4 rows for a thread.
Result<ColumnsPlan> plan_columns(const CudaQuery& q, std::int64_t rows, std::int64_t channels,
                                 std::string_view body) {
  ColumnsPlan p;
  p.pack = pack_width(widest_bytes(q), channels);
  int across = 1;
  while (across < 32 && across * p.pack < channels) across *= 2;
  p.block = {static_cast<unsigned>(across), static_cast<unsigned>(256 / across)};
  p.grid.x = blocks_for(channels, across, p.pack);
  const std::int64_t wanted = std::clamp<std::int64_t>(
      rows / (4 * p.block.y), 1, std::max<std::int64_t>(1024 / static_cast<std::int64_t>(p.grid.x), 1));
  p.s = {rows, channels, std::max<std::int64_t>((rows + wanted - 1) / wanted, 1), 1};
  p.s.num_parts = std::max<std::int64_t>((rows + p.s.part - 1) / p.s.part, 1);
  p.grid.y = static_cast<unsigned>(p.s.num_parts);
  const std::string text =
      norm_text(q, {{"kPack", p.pack}, {"kAcross", across}}, {pack_text(), kColumnsText, body});
  if (body != kInferenceText) {
    TR_ASSIGN_OR_RETURN(p.sums, q.device.function(text, "column_sums"));
    TR_ASSIGN_OR_RETURN(p.stats, q.device.function(text, "column_stats"));
  }
  TR_ASSIGN_OR_RETURN(p.apply, q.device.function(text, "column_apply"));
  return p;
}

}  // namespace

Made make_batch_norm_rows(const CudaQuery& q, std::int64_t rows, std::int64_t channels) {
  TR_ASSIGN_OR_RETURN(const ColumnsPlan p, plan_columns(q, rows, channels, kForwardText));
  const double eps = q.attrs.get_float("eps");
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.s.channels == 0) return ok_status();
        Columns s = p.s;
        if (s.rows == 0) s.num_parts = 0;
        void *x = a.in(0).raw(), *parts = a.workspace;
        void* table = a.workspace + p.table_bytes();
        if (s.rows > 0) TR_RETURN_IF_ERROR(launch(a.stream, *p.sums, p.grid, p.block, 0, x, parts, s));
        TR_RETURN_IF_ERROR(launch(a.stream, *p.stats, p.stats_grid(), {32, 32}, 0, x, parts, table,
                                  a.out(1).raw(), a.out(2).raw(), s, eps));
        if (s.rows == 0) return ok_status();
        return launch(a.stream, *p.apply, p.grid, p.block, 0, x, table, a.in(1).raw(), a.in(2).raw(),
                      a.out(0).raw(), s);
      },
      p.bytes());
}

Made make_batch_norm_grad_rows(const CudaQuery& q, std::int64_t rows, std::int64_t channels) {
  TR_ASSIGN_OR_RETURN(const ColumnsPlan p, plan_columns(q, rows, channels, kGradText));
  const double eps = q.attrs.get_float("eps");
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.s.channels == 0) return ok_status();
        void *x = a.in(0).raw(), *scale = a.in(1).raw(), *mean = a.in(2).raw(), *dy = a.in(4).raw();
        void *parts = a.workspace, *table = a.workspace + p.table_bytes();
        TR_RETURN_IF_ERROR(launch(a.stream, *p.sums, p.grid, p.block, 0, x, mean, dy, parts, p.s));
        TR_RETURN_IF_ERROR(launch(a.stream, *p.stats, p.stats_grid(), {32, 32}, 0, parts, scale,
                                  a.in(3).raw(), table, a.out(1).raw(), a.out(2).raw(), p.s, eps));
        return launch(a.stream, *p.apply, p.grid, p.block, 0, x, table, scale, mean, dy, a.out(0).raw(), p.s);
      },
      p.bytes());
}

Made make_batch_norm_inference_rows(const CudaQuery& q, std::int64_t rows, std::int64_t channels) {
  TR_ASSIGN_OR_RETURN(const ColumnsPlan p, plan_columns(q, rows, channels, kInferenceText));
  const double eps = q.attrs.get_float("eps");
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (p.s.rows * p.s.channels == 0) return ok_status();
    return launch(a.stream, *p.apply, p.grid, p.block, 0, a.in(0).raw(), a.in(1).raw(), a.in(2).raw(),
                  a.in(3).raw(), a.in(4).raw(), a.out(0).raw(), p.s, eps);
  });
}

}  // namespace trireme::kernel::cuda
