// batch_norm, its gradient and batch_norm_inference over x [N, C, plane]. Formulas: op/nn/norm.h.
//
// A channel's elements are cut into parts; a block adds up one part, and whoever needs the sums of the
// channel adds those of its parts, in one order. Sums are of x minus the channel's first element: the
// variance comes from one read of x without cancelling (Chan, Golub and LeVeque, "Algorithms for computing
// the sample variance", 1983, shifted data).
#include <algorithm>

#include "trireme/kernel/cuda/norm/norm.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/op/detail/infer.h"

namespace trireme::kernel::cuda {

extern const char kNormPlanesText[], kPlanesInferenceText[];  // norm_batch.cu
extern const char kPlanesForwardText[];                       // norm_batch_forward.cu
extern const char kPlanesGradText[];                          // norm_batch_grad.cu

namespace {

constexpr int kThreads = 256;

struct Planes {  // as in the text
  std::int64_t channels, plane, total, part, num_parts;
};

struct PlanesPlan {
  Planes s{};
  int pack = 1;
  std::int64_t images = 1;
  const char* index = "";
  unsigned blocks() const { return static_cast<unsigned>(s.channels * s.num_parts); }
};

// Some 2,048 blocks, of at least a pack per thread.
// `bytes`: of an element of the widest large operand.
PlanesPlan plan_planes(const TensorType& x, std::size_t bytes) {
  PlanesPlan p;
  p.images = x.shape[0];
  p.s.channels = x.shape[1];
  p.s.plane = 1;
  for (int d = 2; d < x.shape.rank(); ++d) p.s.plane *= x.shape[d];
  p.s.total = p.images * p.s.plane;
  p.pack = pack_width(bytes, p.s.plane);
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t most = std::min<std::int64_t>(kThreads, p.s.total / (kThreads * p.pack));
  const std::int64_t wanted = std::clamp<std::int64_t>(
      ceil_div(2048, std::max<std::int64_t>(p.s.channels, 1)), 1, std::max<std::int64_t>(most, 1));
  p.s.part = std::max<std::int64_t>(ceil_div(ceil_div(p.s.total, wanted), p.pack) * p.pack, 1);
  p.s.num_parts = std::max<std::int64_t>(ceil_div(p.s.total, p.s.part), 1);
  p.index = x.shape.num_elems() < (std::int64_t{1} << 31) ? "using I = u32;\n" : "using I = i64;\n";
  return p;
}

}  // namespace

Made make_batch_norm(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const PlanesPlan p = plan_planes(x, widest_bytes(q));
  if (p.s.plane == 1) return make_batch_norm_rows(q, p.images, p.s.channels);
  const std::string text =
      batch_norm_text(q, {{"kPack", p.pack}}, {p.index, kNormPlanesText, kPlanesForwardText});
  TR_ASSIGN_OR_RETURN(const Function* sums, q.device.function(text, "norm_sums"));
  TR_ASSIGN_OR_RETURN(const Function* apply, q.device.function(text, "norm_apply"));
  const int residual = batch_norm_parts(q).residual;
  const double eps = q.attrs.get_float("eps");
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.s.channels == 0) return ok_status();
        void *in = a.in(0).raw(), *parts = a.workspace;
        if (p.s.total > 0)
          TR_RETURN_IF_ERROR(launch(a.stream, *sums, {p.blocks()}, {kThreads}, 0, in, parts, p.s));
        return launch(a.stream, *apply, {p.blocks()}, {kThreads}, 0, in, parts, a.in(1).raw(), a.in(2).raw(),
                      input_at(a, residual), a.out(0).raw(), a.out(1).raw(), a.out(2).raw(), p.s, eps);
      },
      2 * p.blocks() * sizeof(double));
}

Made make_batch_norm_grad(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const PlanesPlan p = plan_planes(x, widest_bytes(q));
  if (p.s.plane == 1) return make_batch_norm_grad_rows(q, p.images, p.s.channels);
  const std::string text =
      batch_norm_text(q, {{"kPack", p.pack}}, {p.index, kNormPlanesText, kPlanesGradText});
  TR_ASSIGN_OR_RETURN(const Function* sums, q.device.function(text, "norm_sums"));
  TR_ASSIGN_OR_RETURN(const Function* apply, q.device.function(text, "norm_apply"));
  const BatchNormParts of = batch_norm_parts(q);
  const double eps = q.attrs.get_float("eps");
  return make_kernel(
      [=](const CudaArgs& a) -> Status {
        if (p.s.channels == 0) return ok_status();
        void *in = a.in(0).raw(), *scale = a.in(1).raw(), *bias = input_at(a, of.bias), *parts = a.workspace;
        void *mean = input_at(a, of.mean), *var = input_at(a, of.var), *dy = input_at(a, of.dy);
        void* const masked = of.y >= 0 ? a.out(3).raw() : nullptr;
        TR_RETURN_IF_ERROR(launch(a.stream, *sums, {p.blocks()}, {kThreads}, 0, in, scale, bias, mean, var,
                                  input_at(a, of.y), dy, input_at(a, of.second), masked, parts, p.s, eps));
        return launch(a.stream, *apply, {p.blocks()}, {kThreads}, 0, in, parts, scale, bias, mean, var,
                      masked != nullptr ? masked : dy, a.out(0).raw(), a.out(1).raw(), a.out(2).raw(), p.s,
                      eps);
      },
      2 * p.blocks() * sizeof(double));
}

Made make_batch_norm_inference(const CudaQuery& q) {
  const TensorType& x = q.inputs[0];
  const PlanesPlan p = plan_planes(x, widest_bytes(q));
  if (p.s.plane == 1) return make_batch_norm_inference_rows(q, p.images, p.s.channels);
  const std::string text = batch_norm_text(q, {{"kPack", p.pack}}, {p.index, kPlanesInferenceText});
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text, "norm_given"));
  const double eps = q.attrs.get_float("eps");
  const std::int64_t n = x.shape.num_elems();
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (n == 0) return ok_status();
    return launch(a.stream, *f, {blocks_for(n, kThreads, p.pack)}, {kThreads}, 0, a.in(0).raw(),
                  a.in(1).raw(), a.in(2).raw(), a.in(3).raw(), a.in(4).raw(), a.out(0).raw(), n, p.s.channels,
                  p.s.plane, eps);
  });
}

}  // namespace trireme::kernel::cuda
