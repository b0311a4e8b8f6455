#include "trireme/kernel/cuda/conv/conv_direct.h"

#include <fmt/format.h>

namespace trireme::kernel::cuda {

extern const char kConvDirectText[];  // conv_direct.cu

namespace {

constexpr int kThreads = 256;

}  // namespace

Result<DirectConv> DirectConv::make(const CudaQuery& q, DnnPass pass, const op::detail::ConvGeometry& g) {
  static_assert(sizeof g == 17 * sizeof(std::int64_t), "the kernels' Geometry follows ConvGeometry");
  DirectConv made;
  made.pass_ = pass, made.geometry_ = g;
  const char* name = pass == DnnPass::forward      ? "conv_forward"
                     : pass == DnnPass::input_grad ? "conv_input_grad"
                                                   : "conv_filter_grad";
  TR_ASSIGN_OR_RETURN(
      made.function_,
      q.device.function(fmt::format("typedef {} T;\nconstexpr bool kLast = {};\n{}",
                                    cuda_type(q.outputs[0].dtype), q.channels_last, kConvDirectText),
                        name));
  return made;
}

Status DirectConv::enqueue(CudaStream& stream, void* x, void* filter, void* y) const {
  const auto& g = geometry_;
  const bool by_block = pass_ == DnnPass::filter_grad;
  const std::int64_t total = pass_ == DnnPass::forward ? g.n * g.o * g.oh * g.ow
                             : by_block                ? g.o * g.cg * g.kh * g.kw
                                                       : g.n * g.c * g.h * g.w;
  if (total == 0) return {};
  const unsigned blocks = by_block ? blocks_for(total, 1) : blocks_for(total, kThreads);
  return launch(stream, *function_, {blocks}, {kThreads}, 0, x, filter, y, g);
}

}  // namespace trireme::kernel::cuda
