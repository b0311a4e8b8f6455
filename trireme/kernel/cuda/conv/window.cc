// Sums over windows along a dimension: window_sum and local_response_norm. x is [outer, n, inner], windows
// lie along n.
#include <algorithm>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/detail/infer.h"

namespace trireme::kernel::cuda {
namespace {

// STREAM: a thread walks `chunk` elements along n and keeps the window in registers, so that each element is
// read once. Otherwise each element of y reads its own window: for long windows, and where n is the fastest
// dimension.
constexpr const char* kText = R"cuda(
typedef acc_t<In> A;
struct Sizes { i64 outer, n, inner, chunk; };

__device__ A part(A v) { return kNorm ? v * v : v; }

// s^-0.75; the usual power without a logarithm. In f32 good to a few units of rounding; 0 for inf.
__device__ double three_quarters(double s) { return 1 / (sqrt(s) * sqrt(sqrt(s))); }
__device__ float three_quarters(float s) {
  const float r = rsqrtf(s);
  return r * sqrtf(r);
}

// What becomes of an element and the sum over its window.
__device__ Out result(A v, A sum, double k, double factor, double beta) {
  if (!kNorm) return store_acc<Out>(sum);
  const A s = (A)k + (A)factor * sum;
  return store_acc<Out>(kThreeQuarters ? v * three_quarters(s) : v / pow(s, (A)beta));
}

#if STREAM
extern "C" __global__ void window_sum(const In* __restrict__ x, Out* __restrict__ y, Sizes s, i64, i64, double k,
                                      double factor, double beta) {
  const i64 at = first_index(), chunks = (s.n + s.chunk - 1) / s.chunk;
  if (at >= s.outer * chunks * s.inner) return;
  const i64 first = at / s.inner % chunks * s.chunk, last = min(first + s.chunk, s.n);
  const i64 row = at / s.inner / chunks * s.n * s.inner + at % s.inner;
  A window[kBefore + kAfter + 1];
#pragma unroll
  for (int j = 0; j < kBefore + kAfter; ++j) {
    const i64 i = first - kBefore + j;
    window[j + 1] = i >= 0 && i < s.n ? (A)load_acc(x[row + i * s.inner]) : A(0);
  }
#pragma unroll 8
  for (i64 i = first; i < last; ++i) {
#pragma unroll
    for (int j = 0; j < kBefore + kAfter; ++j) window[j] = window[j + 1];
    window[kBefore + kAfter] = i + kAfter < s.n ? (A)load_acc(x[row + (i + kAfter) * s.inner]) : A(0);
    A sum = 0;
#pragma unroll
    for (int j = 0; j <= kBefore + kAfter; ++j) sum += part(window[j]);
    y[row + i * s.inner] = result(window[kBefore], sum, k, factor, beta);
  }
}
#else
extern "C" __global__ void window_sum(const In* __restrict__ x, Out* __restrict__ y, Sizes s, i64 before, i64 after,
                                      double k, double factor, double beta) {
  for (i64 at = first_index(); at < s.outer * s.n * s.inner; at += grid_step()) {
    const i64 i = at / s.inner % s.n;
    const i64 begin = i < before ? 0 : i - before, end = s.n - i <= after ? s.n : i + after + 1;
    const In* row = x + at - i * s.inner;
    A sum = 0;
    for (i64 j = begin; j < end; ++j) sum += part(load_acc(row[j * s.inner]));
    y[at] = result(load_acc(x[at]), sum, k, factor, beta);
  }
}
#endif
)cuda";

struct Sizes {  // as the text has it
  std::int64_t outer, n, inner, chunk;
};
struct Window {
  int axis;
  std::int64_t before, after;
  bool norm = false;
  double k = 0, factor = 0, beta = 0;
};

Sizes sizes_of(const Shape& shape, int axis) {
  Sizes s{1, shape[axis], 1, shape[axis]};
  for (int d = 0; d < axis; ++d) s.outer *= shape[d];
  for (int d = axis + 1; d < shape.rank(); ++d) s.inner *= shape[d];
  constexpr std::int64_t kEnough = 1 << 17,
                         kChunk = 32;  // threads that fill a GPU; elements of one otherwise
  if (s.outer * s.inner < kEnough) s.chunk = std::min(s.n, kChunk);
  return s;
}

Made make_window(const CudaQuery& q, const Window& w) {
  constexpr int kThreads = 256;
  const Sizes s = sizes_of(q.inputs[0].shape, w.axis);
  constexpr std::int64_t kLongest = 16;  // window in registers
  const bool stream =
      s.inner >= 32 && w.before < kLongest && w.after < kLongest && w.before + w.after < kLongest;
  const std::string head = fmt::format(
      "#define STREAM {}\ntypedef {} In; typedef {} Out;\nconstexpr int kBefore = {}, kAfter = {};\n"
      "constexpr bool kNorm = {}, kThreeQuarters = {};\n",
      stream ? 1 : 0, cuda_type(q.inputs[0].dtype), cuda_type(q.outputs[0].dtype), stream ? w.before : 0,
      stream ? w.after : 0, w.norm, w.beta == 0.75);
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(head + kText, "window_sum"));
  const std::int64_t n = s.outer * s.n * s.inner;
  const std::int64_t threads = stream && n > 0 ? s.outer * ((s.n + s.chunk - 1) / s.chunk) * s.inner : n;
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (n == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(threads, kThreads, 1, 1U << 30)}, {kThreads}, 0, a.in(0).raw(),
                  a.out(0).raw(), s, w.before, w.after, w.k, w.factor, w.beta);
  });
}

}  // namespace

Made make_window_sum(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const int axis, op::detail::resolve_axis("axis", q.attrs.get_int("axis"), q.inputs[0]));
  return make_window(q, {axis, q.attrs.get_int("before"), q.attrs.get_int("after")});
}

Made make_local_response_norm(const CudaQuery& q) {
  const std::int64_t size = q.attrs.get_int("size");
  return make_window(q, {1, size / 2, (size - 1) / 2, true, q.attrs.get_float("k"),
                         q.attrs.get_float("alpha") / static_cast<double>(size), q.attrs.get_float("beta")});
}

}  // namespace trireme::kernel::cuda
