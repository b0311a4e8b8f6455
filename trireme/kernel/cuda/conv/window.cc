// Sums over windows along a dimension: window_sum and local_response_norm. x is [outer, n, inner], windows
// lie along n.
#include <algorithm>

#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/detail/infer.h"

namespace trireme::kernel::cuda {

extern const char kWindowText[];  // window.cu

namespace {

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
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(head + kWindowText, "window_sum"));
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
