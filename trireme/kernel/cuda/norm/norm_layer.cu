// layer_norm and its gradient.
#pragma once

#include "trireme/kernel/cuda/norm/norm_types.cu"
#include "trireme/kernel/cuda/norm/rows.cu"

constexpr int kBlocks = 1;
constexpr bool kSums = true;

#pragma text kLayerNormText
template <bool kAligned>
__device__ __forceinline__ void norm_row(const T* x, const S* scale, const B* bias, Y* y, M* mean_to,
                                         V* var_to, i64 n, double eps) {
  const Row<T, kAligned> row(x, n);
  A mean = 0, var = 0;
  row.scan([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) mean += widen(p.v[v]);
  });
  mean = n > 0 ? row_sum(mean) / (A)n : (A)0;
  row.each([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A off = widen(p.v[v]) - mean;
      var += off * off;
    }
  });
  var = n > 0 ? row_sum(var) / (A)n : (A)0;
  if (row_lane() == 0) {
    *mean_to = narrow<M>(mean);
    *var_to = narrow<V>(var);
  }
  const A inv = (A)1 / root_of(var + (A)eps);
  row.each([&](const Packed& p, int i) {
    const auto s = load_pack<kAligned>(scale + i);
    const auto b = load_pack<kAligned>(bias + i);
    Pack<Y, kPack> out;
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      out.v[v] = narrow<Y>((widen(p.v[v]) - mean) * inv * widen(s.v[v]) + widen(b.v[v]));
    store_pack<kAligned>(y + i, out);
  });
}

extern "C" __global__ void layer_norm(const T* x, const S* scale, const B* bias, Y* y, M* means, V* vars,
                                      i64 rows, i64 n, double eps) {
  const i64 r = rows - 1 - row_index();
  if (r < 0) return;
  if (is_aligned(x) && is_aligned(scale) && is_aligned(bias) && is_aligned(y))
    norm_row<true>(x + r * n, scale, bias, y + r * n, means + r, vars + r, n, eps);
  else
    norm_row<false>(x + r * n, scale, bias, y + r * n, means + r, vars + r, n, eps);
}

#pragma text kLayerNormGradText
// parts: [blocks][lists][n]; lists: dscale, dbias and, where there is a copy, the sums of its columns.
// Where rows do not fit into registers kKept is 0 and parts are not written.
constexpr int kLists = kSums ? 3 : 2;
// Rounded as by an op of its own, not as part of a multiply-add.
__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
struct Operands {
  const T* x;
  const S* scale;
  const M* means;
  const V* vars;
  const D* dy;
  const O* other;
  X* dx;
  C* copy;
};

// The sums of two values over a row; `turn` alternates, so that one barrier does.
__device__ __forceinline__ void add_up(A& a, A& b, int turn) {
  a = warp_sum(a);
  b = warp_sum(b);
  if constexpr (kThreads > 32) {
    __shared__ A warps[2][2][kThreads / 32];
    if ((threadIdx.x & 31) == 0) {
      warps[turn][0][threadIdx.x >> 5] = a;
      warps[turn][1][threadIdx.x >> 5] = b;
    }
    __syncthreads();
    a = b = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) {
      a += warps[turn][0][w];
      b += warps[turn][1][w];
    }
  }
}
// One element: what dx, its sum with the residual's gradient and the copy are.
struct Made {
  X dx;
  C copy;
};
__device__ __forceinline__ Made made_of(A xh, A g, A sum, A dot, A inv, O other) {
  Made made;
  made.dx = narrow<X>(inv * (g - sum - xh * dot));
  if constexpr (kSums) {
    made.dx = narrow<X>(plus(widen(made.dx), widen(other)));
    made.copy = narrow<C>(widen(made.dx));
  }
  return made;
}

// What a thread has of a row: the packs lane, lane + kThreads...
struct Part {
  Packed x[kKeep];
  Pack<D, kPack> dy[kKeep];
  Pack<O, kPack> other[kSums ? kKeep : 1];
  A mean, inv;
};
template <bool kAligned>
__device__ __forceinline__ void load_part(Part& part, const Operands& o, i64 r, int n, A eps) {
#pragma unroll
  for (int u = 0; u < kKeep; ++u) {
    const int i = (u * kThreads + threadIdx.x) * kPack;
    if (i >= n) continue;
    part.x[u] = load_pack<kAligned>(o.x + r * n + i);
    part.dy[u] = load_pack<kAligned>(o.dy + r * n + i);
    if constexpr (kSums) part.other[u] = load_pack<kAligned>(o.other + r * n + i);
  }
  part.mean = widen(o.means[r]);
  part.inv = (A)1 / root_of(widen(o.vars[r]) + eps);
}

// A block has a row, reads the next one meanwhile where registers allow it, and adds up its columns on
// the way.
template <bool kAligned>
__device__ __forceinline__ void grad_rows(const Operands& o, A* parts, i64 rows, int n, A eps) {
  constexpr bool kAhead = kKeep * kPack <= 8;
  A lists[kLists][kKeep][kPack];
  Pack<S, kPack> scale[kKeep];
#pragma unroll
  for (int u = 0; u < kKeep; ++u) {
    const int i = (u * kThreads + threadIdx.x) * kPack;
    if (i < n) scale[u] = load_pack<kAligned>(o.scale + i);
#pragma unroll
    for (int v = 0; v < kPack; ++v)
#pragma unroll
      for (int k = 0; k < kLists; ++k) lists[k][u][v] = 0;
  }
  Part now, next;
  int turn = 0;
  const i64 last = rows - 1 - blockIdx.x;
  if (kAhead) load_part<kAligned>(next, o, last, n, eps);
  for (i64 r = last; r >= 0; r -= gridDim.x, turn ^= 1) {
    if constexpr (kAhead) {
      now = next;
      if (r >= gridDim.x) load_part<kAligned>(next, o, r - gridDim.x, n, eps);
    } else {
      load_part<kAligned>(now, o, r, n, eps);
    }
    A sum = 0, dot = 0;
#pragma unroll
    for (int u = 0; u < kKeep; ++u) {
      if ((u * kThreads + threadIdx.x) * kPack >= n) continue;
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        const A xh = (widen(now.x[u].v[v]) - now.mean) * now.inv, d = widen(now.dy[u].v[v]);
        const A g = d * widen(scale[u].v[v]);
        sum += g;
        dot += g * xh;
        lists[0][u][v] += d * xh;
        lists[1][u][v] += d;
      }
    }
    add_up(sum, dot, turn);
    sum /= (A)n;
    dot /= (A)n;
#pragma unroll
    for (int u = 0; u < kKeep; ++u) {
      const int i = (u * kThreads + threadIdx.x) * kPack;
      if (i >= n) continue;
      Pack<X, kPack> out;
      Pack<C, kPack> low;
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        const A xh = (widen(now.x[u].v[v]) - now.mean) * now.inv;
        const A g = widen(now.dy[u].v[v]) * widen(scale[u].v[v]);
        const Made made = made_of(xh, g, sum, dot, now.inv, now.other[kSums ? u : 0].v[v]);
        out.v[v] = made.dx;
        low.v[v] = made.copy;
        if constexpr (kSums) lists[2][u][v] += widen(made.copy);
      }
      store_pack<kAligned>(o.dx + r * n + i, out);
      if constexpr (kSums) store_pack<kAligned>(o.copy + r * n + i, low);
    }
  }
#pragma unroll
  for (int u = 0; u < kKeep; ++u)
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const int c = (u * kThreads + threadIdx.x) * kPack + v;
#pragma unroll
      for (int k = 0; k < kLists; ++k)
        if (c < n) parts[((i64)blockIdx.x * kLists + k) * n + c] = lists[k][u][v];
    }
}

// Rows that are read twice.
__device__ __forceinline__ void long_rows(const Operands& o, i64 rows, i64 n, A eps) {
  int turn = 0;
  for (i64 r = blockIdx.x; r < rows; r += gridDim.x, turn ^= 1) {
    const T* x = o.x + r * n;
    const D* dy = o.dy + r * n;
    const A mean = widen(o.means[r]), inv = (A)1 / root_of(widen(o.vars[r]) + eps);
    A sum = 0, dot = 0;
#pragma unroll 4
    for (i64 i = threadIdx.x; i < n; i += kThreads) {
      const A g = widen(dy[i]) * widen(o.scale[i]);
      sum += g;
      dot += g * ((widen(x[i]) - mean) * inv);
    }
    add_up(sum, dot, turn);
    sum /= (A)n;
    dot /= (A)n;
#pragma unroll 4
    for (i64 i = threadIdx.x; i < n; i += kThreads) {
      const A g = widen(dy[i]) * widen(o.scale[i]), xh = (widen(x[i]) - mean) * inv;
      const Made made = made_of(xh, g, sum, dot, inv, kSums ? o.other[r * n + i] : O());
      o.dx[r * n + i] = made.dx;
      if constexpr (kSums) o.copy[r * n + i] = made.copy;
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    layer_norm_grad(const Operands o, A* parts, i64 rows, i64 n, double eps) {
  if constexpr (!kKept)
    long_rows(o, rows, n, (A)eps);
  else if (is_aligned(o.x) && is_aligned(o.scale) && is_aligned(o.dy) && is_aligned(o.dx) &&
           is_aligned(o.other) && is_aligned(o.copy))
    grad_rows<true>(o, parts, rows, (int)n, (A)eps);
  else
    grad_rows<false>(o, parts, rows, (int)n, (A)eps);
}

// For long rows: threads x along columns, blocks y over parts of the rows.
extern "C" __global__ void norm_params(const Operands o, A* parts, i64 rows, i64 n, double eps) {
  const i64 c = first_index(), each = (rows + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * each;
  if (c >= n) return;
  const i64 end = begin + each < rows ? begin + each : rows;
  A lists[3] = {0, 0, 0};
  for (i64 r = begin; r < end; ++r) {
    const A inv = (A)1 / root_of(widen(o.vars[r]) + (A)eps), d = widen(o.dy[r * n + c]);
    lists[0] += d * ((widen(o.x[r * n + c]) - widen(o.means[r])) * inv);
    lists[1] += d;
    if (kSums) lists[2] += widen(o.copy[r * n + c]);
  }
  for (int k = 0; k < kLists; ++k) parts[(blockIdx.y * kLists + k) * n + c] = lists[k];
}

// Threads x along the columns of all lists, threads y over parts.
extern "C" __global__ void sum_parts(const A* parts, G* dscale, H* dbias, K* sums_of_copy, i64 n,
                                     i64 num_parts) {
  __shared__ A sums[32][33];
  const i64 c = (i64)blockIdx.x * 32 + threadIdx.x;
  A sum = 0;
  if (c < kLists * n) {
#pragma unroll 8
    for (i64 k = threadIdx.y; k < num_parts; k += 32) sum += parts[k * kLists * n + c];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= kLists * n) return;
  for (int k = 1; k < 32; ++k) sum += sums[k][threadIdx.x];
  if (c < n)
    dscale[c] = narrow<G>(sum);
  else if (c < 2 * n)
    dbias[c - n] = narrow<H>(sum);
  else
    sums_of_copy[c - 2 * n] = narrow<K>(sum);
}
