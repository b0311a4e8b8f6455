// Losses per sample: softmax_cross_entropy, squared_error, their gradients, and `correct`. A warp or a block
// has a sample. What weights and bad labels mean is in op/nn/sample_loss.h.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

// log(sum(exp)) of a row in one read of it: every thread has the largest value so far and the sum relative to
// it (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The first largest value is
// finite, so that -inf, a class that is ruled out, adds nothing; a row of nothing else is NaN, as one with
// +inf.
constexpr const char* kEntropyText = R"cuda(
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
template <class E> __device__ __forceinline__ Pack<E, kPack> grads(const Packed& p, int i, int label, A factor, A shift) {
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

// Of what the threads of a row have.
__device__ __forceinline__ A joined_log_sum_exp(A top, A sum) {
  const A all = row_max(top);
  sum = row_sum(sum * exp_of(top - all));
  return sum != 0 && all < inf() ? all + log_of(sum) : nan();
}

template <class R> __device__ __forceinline__ A log_sum_exp(const R& row) {
  A top = lowest(), sum = 0;
  row.scan([&](const Packed& p, int) { add_shares(p, largest(p), top, sum); });
  return joined_log_sum_exp(top, sum);
}

extern "C" __global__ void entropy(const T* logits, const L* labels, const float* weights, O* out, i64 rows, i64 n) {
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
)cuda";

constexpr const char* kEntropyGradText = R"cuda(
template <bool kAligned> __device__ __forceinline__ void grad_row(const T* from, O* to, int label, A factor, i64 n) {
  const Row<T, kAligned> row(from, n);
  const A shift = unit(log_sum_exp(row));
  row.each([&](const Packed& p, int i) { store_pack<kAligned>(to + i, grads<O>(p, i, label, factor, shift)); });
}

extern "C" __global__ void __launch_bounds__(kByWarp ? 128 : kThreads)
    entropy_grad(const T* logits, const L* labels, const float* weights, const U* dlosses, O* out, i64 rows, i64 n) {
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
  if (aligned) grad_row<true>(logits + r * n, to, (int)label, factor, n);
  else grad_row<false>(logits + r * n, to, (int)label, factor, n);
}
)cuda";

// The first maximum; NaN never wins over what came before it, and nothing wins over NaN in front.
constexpr const char* kCorrectText = R"cuda(
template <class R> __device__ __forceinline__ int first_maximum(const R& row) {
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

extern "C" __global__ void correct(const T* logits, const L* labels, const float* weights, float* out, i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const T* from = logits + r * n;
  int at = is_aligned(logits) ? first_maximum(Row<T, true>(from, n)) : first_maximum(Row<T, false>(from, n));
  const A front = widen(from[0]);
  if (front != front || at == (int)n) at = 0;
  if (row_lane() == 0) out[r] = at == labels[r] && weights[r] > 0 ? 1.0f : 0.0f;
}
)cuda";

// Reads a row once, and tells whether its label is the first maximum on the way: whether nothing before it is
// as large and nothing behind it larger. NaN in front is a maximum, elsewhere it is not. A thread writes only
// what it has read, so the gradient may take the row's place.
constexpr const char* kStepText = R"cuda(
template <bool kAligned>
__device__ __forceinline__ void step_row(const T* from, O* to, int label, A weight, A d, P* loss, float* correct, i64 n) {
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
  row.each([&](const Packed& p, int i) { store_pack<kAligned>(to + i, grads<O>(p, i, label, factor, shift)); });
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
  if (aligned) step_row<true>(logits + r * n, to, (int)label, (A)weight, d, losses + r, correct + r, n);
  else step_row<false>(logits + r * n, to, (int)label, (A)weight, d, losses + r, correct + r, n);
}
)cuda";

constexpr const char* kSquaredText = R"cuda(
template <bool kAligned> __device__ __forceinline__ A squared_row(const T* prediction, const T* target, i64 n) {
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

extern "C" __global__ void squared(const T* prediction, const T* target, const float* weights, T* out, i64 rows, i64 n) {
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

extern "C" __global__ void squared_grad(const T* prediction, const T* target, const float* weights, const T* dlosses,
                                        T* out, i64 rows, i64 n) {
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
)cuda";

struct Loss {
  const Function* f = nullptr;
  RowPlan plan;
  std::int64_t rows = 0, n = 1;
};

// `body` for samples of n elements; labels, where there are some, are input 1. `again`: it passes over a row
// more than once.
Result<Loss> loss_of(const CudaQuery& q, std::initializer_list<std::string_view> body, const char* name,
                     bool again) {
  Loss loss;
  const TensorType& x = q.inputs[0];
  loss.rows = x.shape[0];
  for (int d = 1; d < x.shape.rank(); ++d) loss.n *= x.shape[d];
  const DType out = q.outputs[0].dtype, labels = q.inputs[1].dtype;
  const bool large = q.outputs[0].shape == x.shape;  // a gradient
  loss.plan = plan_row(x.dtype, std::max(dtype_size(x.dtype), large ? dtype_size(out) : 0), loss.n, again);
  const std::string types = fmt::format("using L = {};\n", is_floating(labels) ? "i64" : cuda_type(labels));
  std::string text(types + row_constants(loss.plan));
  for (const std::string_view part : {pack_text(), row_text()}) text += part;
  for (const std::string_view part : body) text += part;
  text = typed_text({{"X", x.dtype},
                     {"O", out},
                     {"U", q.inputs.size() > 3 ? q.inputs[3].dtype : out},
                     {"P", q.outputs.size() > 1 ? q.outputs[1].dtype : out}},
                    {{"kPack", loss.plan.pack}}, {text});
  TR_ASSIGN_OR_RETURN(loss.f, q.device.function(text, name));
  return loss;
}

// One value per sample from input 0 and what goes with it.
Made make_value(const CudaQuery& q, std::string_view body, const char* name) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, {body}, name, false));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    if (loss.rows == 0) return ok_status();
    return launch(a.stream, *loss.f, {loss.plan.blocks(loss.rows)},
                  {static_cast<unsigned>(loss.plan.block())}, 0, a.in(0).raw(), a.in(1).raw(), a.in(2).raw(),
                  a.out(0).raw(), loss.rows, loss.n);
  });
}

}  // namespace

Made make_softmax_cross_entropy(const CudaQuery& q) { return make_value(q, kEntropyText, "entropy"); }
Made make_correct(const CudaQuery& q) { return make_value(q, kCorrectText, "correct"); }
Made make_squared_error(const CudaQuery& q) { return make_value(q, kSquaredText, "squared"); }

Made make_softmax_cross_entropy_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, {kEntropyText, kEntropyGradText}, "entropy_grad", true));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    if (loss.rows == 0) return ok_status();
    return launch(a.stream, *loss.f, {loss.plan.blocks(loss.rows)},
                  {static_cast<unsigned>(loss.plan.block())}, loss.plan.shared_bytes, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), loss.rows, loss.n);
  });
}

Made make_softmax_cross_entropy_step(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, {kEntropyText, kStepText}, "entropy_step", true));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    if (loss.rows == 0) return ok_status();
    return launch(a.stream, *loss.f, {loss.plan.blocks(loss.rows)},
                  {static_cast<unsigned>(loss.plan.block())}, loss.plan.shared_bytes, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), a.out(1).raw(), a.out(2).raw(),
                  loss.rows, loss.n);
  });
}

Made make_squared_error_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, {kSquaredText}, "squared_grad", false));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    const std::int64_t n = loss.rows * loss.n;
    if (n == 0) return ok_status();
    return launch(a.stream, *loss.f, {blocks_for(n, 256, loss.plan.pack)}, {256}, 0, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), loss.rows, loss.n);
  });
}

}  // namespace trireme::kernel::cuda
