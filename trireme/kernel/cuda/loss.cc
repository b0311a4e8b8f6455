// Losses per sample: softmax_cross_entropy, squared_error, their gradients, and `correct`. A warp or a block
// has a sample. What weights and bad labels mean is in op/nn/sample_loss.h.
#include <fmt/format.h>

#include "trireme/kernel/cuda/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

// log(sum(exp)) of a row in one read of it: every thread has the largest value so far and the sum relative to
// it (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The first largest value is
// finite, so that -inf, a class that is ruled out, adds nothing; a row of nothing else is NaN, as one with
// +inf.
constexpr const char* kEntropyText = R"cuda(
__device__ __forceinline__ A lowest() { return sizeof(A) == 8 ? (A)-1.7976931348623157e308 : (A)-3.402823466e38f; }

__device__ __forceinline__ A log_sum_exp(const Row& row) {
  A top = lowest(), sum = 0;
  row.each([&](const Packed& p, int) {
    A here = load_acc(p.v[0]);
#pragma unroll
    for (int v = 1; v < kPack; ++v) {
      const A a = load_acc(p.v[v]);
      here = a > here ? a : here;
    }
    if (here > top) {
      sum *= exp_of(top - here);
      top = here;
    }
#pragma unroll
    for (int v = 0; v < kPack; ++v) sum += exp_of(load_acc(p.v[v]) - top);
  });
  const A all = row_max(top);
  sum = row_sum(sum * exp_of(top - all));
  return sum != 0 && all < inf() ? all + log_of(sum) : nan();
}

extern "C" __global__ void entropy(const T* logits, const L* labels, const float* weights, T* out, i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const float weight = weights[r];
  const i64 label = labels[r];
  if (weight == 0 || label < 0 || label >= n) {
    if (row_lane() == 0) out[r] = store_acc<T>(weight == 0 ? (A)0 : nan());
    return;
  }
  const Row row(logits + r * n, n);
  const A lse = log_sum_exp(row);
  if (row_lane() == 0) out[r] = store_acc<T>((A)weight * (lse - load_acc(logits[r * n + label])));
}

extern "C" __global__ void entropy_grad(const T* logits, const L* labels, const float* weights, const T* dlosses,
                                        T* out, i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const float weight = weights[r];
  const i64 label = labels[r];
  T* to = out + r * n;
  const bool aligned = is_aligned(to);
  if (weight == 0 || label < 0 || label >= n) {
    Packed fill;
    for (int v = 0; v < kPack; ++v) fill.v[v] = store_acc<T>(weight == 0 ? (A)0 : nan());
    for (int i = row_lane() * kPack; i < (int)n; i += kThreads * kPack) store_pack(to + i, fill, aligned);
    return;
  }
  const Row row(logits + r * n, n);
  const A lse = log_sum_exp(row), factor = (A)weight * load_acc(dlosses[r]);
  row.each([&](const Packed& p, int i) {
    Packed d;
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      d.v[v] = store_acc<T>(factor * (exp_of(load_acc(p.v[v]) - lse) - (A)(i + v == (int)label ? 1 : 0)));
    store_pack(to + i, d, aligned);
  });
}
)cuda";

// The first maximum; NaN never wins over what came before it, and nothing wins over NaN in front.
constexpr const char* kCorrectText = R"cuda(
extern "C" __global__ void correct(const T* logits, const L* labels, const float* weights, float* out, i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const Row row(logits + r * n, n);
  A best = -inf();
  row.each([&](const Packed& p, int) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const A a = load_acc(p.v[v]);
      best = a > best ? a : best;
    }
  });
  best = row_max(best);
  int at = (int)n;
  row.each([&](const Packed& p, int i) {
#pragma unroll
    for (int v = 0; v < kPack; ++v)
      if (load_acc(p.v[v]) == best && i + v < at) at = i + v;
  });
  at = -row_max(-at);
  const A front = load_acc(logits[r * n]);
  if (front != front || at == (int)n) at = 0;
  if (row_lane() == 0) out[r] = at == labels[r] && weights[r] > 0 ? 1.0f : 0.0f;
}
)cuda";

constexpr const char* kSquaredText = R"cuda(
extern "C" __global__ void squared(const T* prediction, const T* target, const float* weights, T* out, i64 rows, i64 n) {
  const i64 r = row_index();
  if (r >= rows) return;
  const float weight = weights[r];
  A total = 0;
  if (weight != 0) {  // the same for all threads of a row
    const T* other = target + r * n;
    const bool aligned = is_aligned(other);
    const Row row(prediction + r * n, n);
    row.each([&](const Packed& p, int i) {
      const Packed t = load_pack(other + i, aligned);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        const A off = load_acc(p.v[v]) - load_acc(t.v[v]);
        total += off * off;
      }
    });
    total = row_sum(total) * (A)weight;
  }
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

// `body` for samples of n elements; labels, where there are some, are input 1.
Result<Loss> loss_of(const CudaQuery& q, std::string_view body, const char* name) {
  Loss loss;
  const TensorType& x = q.inputs[0];
  loss.rows = x.shape[0];
  for (int d = 1; d < x.shape.rank(); ++d) loss.n *= x.shape[d];
  loss.plan = plan_row(x.dtype, loss.n);
  const DType labels = q.inputs[1].dtype;
  const std::string index = fmt::format("using L = {};\n", is_floating(labels) ? "i64" : cuda_type(labels));
  const std::string text = typed_text(x.dtype,
                                      {{"kPack", loss.plan.pack},
                                       {"kThreads", loss.plan.threads},
                                       {"kKeep", loss.plan.keep},
                                       {"kKept", loss.plan.kept}},
                                      {index, pack_text(), row_text(), body});
  TR_ASSIGN_OR_RETURN(loss.f, q.device.function(text, name));
  return loss;
}

// One value per sample from input 0 and what goes with it.
Made make_value(const CudaQuery& q, std::string_view body, const char* name) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, body, name));
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
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, kEntropyText, "entropy_grad"));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    if (loss.rows == 0) return ok_status();
    return launch(a.stream, *loss.f, {loss.plan.blocks(loss.rows)},
                  {static_cast<unsigned>(loss.plan.block())}, 0, a.in(0).raw(), a.in(1).raw(), a.in(2).raw(),
                  a.in(3).raw(), a.out(0).raw(), loss.rows, loss.n);
  });
}

Made make_squared_error_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const Loss loss, loss_of(q, kSquaredText, "squared_grad"));
  return make_kernel([loss](const CudaArgs& a) -> Status {
    const std::int64_t n = loss.rows * loss.n;
    if (n == 0) return ok_status();
    return launch(a.stream, *loss.f, {blocks_for(n, 256, loss.plan.pack)}, {256}, 0, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.out(0).raw(), loss.rows, loss.n);
  });
}

}  // namespace trireme::kernel::cuda
