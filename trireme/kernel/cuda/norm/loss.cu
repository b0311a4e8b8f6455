// Losses per sample, their gradients, and `correct`.
#pragma once

#include "trireme/kernel/cuda/norm/rows.cu"

// Types of labels, of the first result, of dlosses and of losses as a second result.
typedef i64 L;
typedef float O;
typedef float U;
typedef float P;

#pragma text kEntropyText
// log(sum(exp)) of a row in one read of it: every thread has the largest value so far and the sum relative to
// it (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The first largest value is
// finite, so that -inf, a class that is ruled out, adds nothing; a row of nothing else is NaN, as one with
// +inf.
// For 16-bit elements it is far enough from the end of float to be counted in units of log 2.
__device__ __forceinline__ A lowest() {
  return sizeof(A) == 8 ? (A)-1.7976931348623157e308 : sizeof(T) == 2 ? (A)-2e38f : (A)-3.402823466e38f;
}
// share(x, unit(shift)) is exp(x - shift); of 16-bit elements one multiply-add and one power of 2.
__device__ __forceinline__ A unit(A shift) { return sizeof(T) == 2 ? shift * (A)1.4426950408889634 : shift; }
__device__ __forceinline__ A share(A x, A shift) {
  if constexpr (sizeof(T) == 2) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(x, 1.44269504f, -shift)));
    return power;
  } else {
    return exp_of(x - shift);
  }
}
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }  // never NaN if one is not
__device__ __forceinline__ double larger(double a, double b) { return fmax(a, b); }
__device__ __forceinline__ A largest(const Packed& p) {
  A here = widen(p.v[0]);
#pragma unroll
  for (int v = 1; v < kPack; ++v) here = larger(here, widen(p.v[v]));
  return here;
}
// The sum of a pack, relative to the largest value so far.
__device__ __forceinline__ void add_shares(const Packed& p, A here, A& top, A& sum) {
  if (here > top) {
    sum *= exp_of(top - here);
    top = here;
  }
  const A shift = unit(top);
#pragma unroll
  for (int v = 0; v < kPack; ++v) sum += share(widen(p.v[v]), shift);
}
// factor (exp(x - lse) - [label]) for a pack that begins at i; `shift`: unit(lse).
template <class E>
__device__ __forceinline__ Pack<E, kPack> grads(const Packed& p, int i, int label, A factor, A shift) {
  Pack<E, kPack> d;
#pragma unroll
  for (int v = 0; v < kPack; ++v) d.v[v] = narrow<E>(factor * share(widen(p.v[v]), shift));
  if ((u32)(label - i) < (u32)kPack) {  // one pack of a row
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      if (i + v == label) d.v[v] = narrow<E>(factor * (share(widen(p.v[v]), shift) - (A)1));
  }
  return d;
}

// Joins what the threads of a row have.
__device__ __forceinline__ A joined_log_sum_exp(A top, A sum) {
  const A all = row_max(top);
  sum = row_sum(sum * exp_of(top - all));
  return sum != 0 && all < inf() ? all + log_of(sum) : nan();
}

template <class R>
__device__ __forceinline__ A log_sum_exp(const R& row) {
  A top = lowest(), sum = 0;
  row.scan([&](const Packed& p, int) { add_shares(p, largest(p), top, sum); });
  return joined_log_sum_exp(top, sum);
}

extern "C" __global__ void entropy(const T* logits, const L* labels, const float* weights, O* out, i64 rows,
                                   i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const float weight = weights[r];
  const i64 label = labels[r];
  if (weight == 0 || label < 0 || label >= n) {
    if (row_lane() == 0) out[r] = narrow<O>(weight == 0 ? (A)0 : nan());
    return;
  }
  const T* from = logits + r * n;
  const A lse = is_aligned(logits) ? log_sum_exp(Row<T, true>(from, n)) : log_sum_exp(Row<T, false>(from, n));
  if (row_lane() == 0) out[r] = narrow<O>((A)weight * (lse - widen(from[label])));
}

#pragma text kEntropyGradText
template <bool kAligned>
__device__ __forceinline__ void grad_row(const T* from, O* to, int label, A factor, i64 n) {
  const Row<T, kAligned> row(from, n);
  const A shift = unit(log_sum_exp(row));
  row.each(
      [&](const Packed& p, int i) { store_pack<kAligned>(to + i, grads<O>(p, i, label, factor, shift)); });
}

extern "C" __global__ void __launch_bounds__(kByWarp ? 128 : kThreads)
    entropy_grad(const T* logits, const L* labels, const float* weights, const U* dlosses, O* out, i64 rows,
                 i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const float weight = weights[r];
  const i64 label = labels[r];
  O* to = out + r * n;
  const bool aligned = is_aligned(logits) && is_aligned(out);
  if (weight == 0 || label < 0 || label >= n) {
    Pack<O, kPack> fill;
    for (int v = 0; v < kPack; ++v) fill.v[v] = narrow<O>(weight == 0 ? (A)0 : nan());
    for (int i = row_lane() * kPack; i < (int)n; i += kThreads * kPack) store_pack(to + i, fill, aligned);
    return;
  }
  const A factor = (A)weight * widen(dlosses[r]);
  if (aligned)
    grad_row<true>(logits + r * n, to, (int)label, factor, n);
  else
    grad_row<false>(logits + r * n, to, (int)label, factor, n);
}

#pragma text kCorrectText
// The first maximum; NaN never wins over what came before it, and nothing wins over NaN in front.
template <class R>
__device__ __forceinline__ int first_maximum(const R& row) {
  A best = -inf();
  int at = row.n;
  row.scan([&](const Packed& p, int i) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A a = widen(p.v[v]);
      if (a > best || (a == best && at == row.n)) {
        best = a;
        at = i + v;
      }
    }
  });
  const A all = row_max(best);
  return -row_max(-(best == all ? at : row.n));
}

extern "C" __global__ void correct(const T* logits, const L* labels, const float* weights, float* out,
                                   i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const T* from = logits + r * n;
  int at = is_aligned(logits) ? first_maximum(Row<T, true>(from, n)) : first_maximum(Row<T, false>(from, n));
  const A front = widen(from[0]);
  if (front != front || at == (int)n) at = 0;
  if (row_lane() == 0) out[r] = at == labels[r] && weights[r] > 0 ? 1.0f : 0.0f;
}

#pragma text kEntropyStepText
// Reads a row once, and tells whether its label is the first maximum on the way: whether nothing before it is
// as large and nothing behind it larger. NaN in front is a maximum, elsewhere it is not. A thread writes only
// what it has read, so the gradient may take the row's place.
template <bool kAligned>
__device__ __forceinline__ void step_row(const T* from, O* to, int label, A weight, A d, P* loss,
                                         float* correct, i64 n) {
  const A mine = widen(from[label]), front = widen(from[0]);
  int beaten = label != 0 && (mine != mine || front != front);
  const Row<T, kAligned> row(from, n);
  A top = lowest(), sum = 0;
  row.scan([&](const Packed& p, int i) {
    const A here = largest(p);
    if ((u32)(label - i) >= (u32)kPack) {
      beaten |= i < label ? here >= mine : here > mine;
    } else {
#pragma unroll
      for (int v = 0; v < kPack; ++v) beaten |= i + v < label ? widen(p.v[v]) >= mine : widen(p.v[v]) > mine;
    }
    add_shares(p, here, top, sum);
  });
  const A lse = joined_log_sum_exp(top, sum), factor = weight * d;
  beaten = row_max(beaten);
  if (row_lane() == 0) {
    *loss = narrow<P>(weight * (lse - mine));
    *correct = !beaten && weight > 0 ? 1.0f : 0.0f;
  }
  const A shift = unit(lse);
  row.each(
      [&](const Packed& p, int i) { store_pack<kAligned>(to + i, grads<O>(p, i, label, factor, shift)); });
}

extern "C" __global__ void __launch_bounds__(kByWarp ? 128 : kThreads)
    entropy_step(const T* logits, const L* labels, const float* weights, const U* dlosses, O* out, P* losses,
                 float* correct, i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const float weight = weights[r];
  const i64 label = labels[r];
  O* to = out + r * n;
  const bool aligned = is_aligned(logits) && is_aligned(out);
  if (weight == 0 || label < 0 || label >= n) {
    const A same = weight == 0 ? (A)0 : nan();
    Pack<O, kPack> fill;
    for (int v = 0; v < kPack; ++v) fill.v[v] = narrow<O>(same);
    for (int i = row_lane() * kPack; i < (int)n; i += kThreads * kPack) store_pack(to + i, fill, aligned);
    if (row_lane() == 0) {
      losses[r] = narrow<P>(same);
      correct[r] = 0;
    }
    return;
  }
  const A d = widen(dlosses[r]);
  if (aligned)
    step_row<true>(logits + r * n, to, (int)label, (A)weight, d, losses + r, correct + r, n);
  else
    step_row<false>(logits + r * n, to, (int)label, (A)weight, d, losses + r, correct + r, n);
}

#pragma text kSquaredText
template <bool kAligned>
__device__ __forceinline__ A squared_row(const T* prediction, const T* target, i64 n) {
  A total = 0;
  Row<T, kAligned>(prediction, n).scan([&](const Packed& p, int i) {
    const Packed t = load_pack<kAligned>(target + i);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A off = load_acc(p.v[v]) - load_acc(t.v[v]);
      total += off * off;
    }
  });
  return row_sum(total);
}

extern "C" __global__ void squared(const T* prediction, const T* target, const float* weights, T* out,
                                   i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const float weight = weights[r];
  const T *a = prediction + r * n, *b = target + r * n;
  const bool aligned = is_aligned(prediction) && is_aligned(target);
  A total = 0;
  if (weight != 0)  // the same for all threads of a row
    total = (aligned ? squared_row<true>(a, b, n) : squared_row<false>(a, b, n)) * (A)weight;
  if (row_lane() == 0) out[r] = store_acc<T>(total);
}

extern "C" __global__ void squared_grad(const T* prediction, const T* target, const float* weights,
                                        const T* dlosses, T* out, i64 rows, i64 n) {
  const i64 packs = rows * n / kPack;
  const bool aligned = is_aligned(prediction) && is_aligned(target) && is_aligned(out);
  for (i64 k = first_index(); k < packs; k += grid_step()) {
    const i64 i = k * kPack;
    const i64 r = rows * n < (1ll << 31) ? (u32)i / (u32)n : i / n;  // n is a multiple of kPack
    const float weight = weights[r];
    const A factor = (A)(2 * weight) * load_acc(dlosses[r]);
    const Packed p = load_pack(prediction + i, aligned), t = load_pack(target + i, aligned);
    Packed d;
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      d.v[v] = store_acc<T>(weight == 0 ? (A)0 : factor * (load_acc(p.v[v]) - load_acc(t.v[v])));
    store_pack(out + i, d, aligned);
  }
}
