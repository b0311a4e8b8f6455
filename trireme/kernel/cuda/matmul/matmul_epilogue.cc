#include "trireme/kernel/cuda/matmul/matmul_epilogue.h"

#include <fmt/format.h>

namespace trireme::kernel::cuda {

extern const char kBiasReluText[];  // matmul_epilogue.cu

namespace {

constexpr int kThreads = 256;

bool is_small(const TensorType& y) { return y.shape.num_elems() < (std::int64_t{1} << 31); }

}  // namespace

Result<BiasRelu> BiasRelu::make(CudaDevice& device, const TensorType& y, std::int64_t channels,
                                std::int64_t inner, bool relu) {
  BiasRelu made;
  const std::string text = fmt::format("typedef {} T;\ntypedef {} I;\nconstexpr bool kRelu = {};\n{}",
                                       cuda_type(y.dtype), is_small(y) ? "u32" : "i64", relu, kBiasReluText);
  TR_ASSIGN_OR_RETURN(made.function_, device.function(text, "bias_relu"));
  const auto wide = static_cast<std::int64_t>(16 / dtype_size(y.dtype));
  if (inner == 1 && channels % wide == 0) {
    TR_ASSIGN_OR_RETURN(made.rows_, device.function(text, "bias_relu_rows"));
    made.wide_ = wide;
  }
  made.small_ = is_small(y), made.elems_ = y.shape.num_elems(), made.channels_ = channels,
  made.inner_ = inner;
  return made;
}

Status BiasRelu::enqueue(CudaStream& stream, void* y, const void* bias) const {
  if (elems_ == 0) return {};
  const auto is_aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  if (rows_ != nullptr && is_aligned(y) && is_aligned(bias)) {
    const std::int64_t n = elems_ / wide_, across = channels_ / wide_;
    const Dim grid{blocks_for(n, kThreads, 4)};
    if (small_) return launch(stream, *rows_, grid, {kThreads}, 0, y, bias, n, static_cast<unsigned>(across));
    return launch(stream, *rows_, grid, {kThreads}, 0, y, bias, n, across);
  }
  if (small_)
    return launch(stream, *function_, {blocks_for(elems_, kThreads, 4)}, {kThreads}, 0, y, bias, elems_,
                  static_cast<unsigned>(channels_), static_cast<unsigned>(inner_));
  return launch(stream, *function_, {blocks_for(elems_, kThreads, 4)}, {kThreads}, 0, y, bias, elems_,
                channels_, inner_);
}

}  // namespace trireme::kernel::cuda
