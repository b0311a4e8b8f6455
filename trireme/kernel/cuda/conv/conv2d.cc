// conv2d, its gradients, conv2d_transpose and conv2d_bias_act through cuDNN; plain loops for what it does not
// take. Images with the channels last that it does not take are turned around for it.
#include <array>

#include "trireme/kernel/cuda/conv/conv_blocks.h"
#include "trireme/kernel/cuda/conv/conv_direct.h"
#include "trireme/kernel/cuda/conv/conv_padded.h"
#include "trireme/kernel/cuda/conv/turned.h"
#include "trireme/kernel/cuda/matmul/matmul_epilogue.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda {
namespace {

using op::detail::ConvGeometry;
using Plan = std::shared_ptr<const DnnPlan>;

constexpr int kOutput = -1;
// Which operand of the op plays which part of the convolution: an input, or the output.
struct Parts {
  DnnPass pass;
  int x, filter, y;
};
constexpr Parts kForward{DnnPass::forward, 0, 1, kOutput};
constexpr Parts kInputGrad{DnnPass::input_grad, kOutput, 0, 1};
constexpr Parts kFilterGrad{DnnPass::filter_grad, 0, kOutput, 1};
constexpr Parts kTranspose{DnnPass::input_grad, kOutput, 1, 0};  // of the convolution that takes y to x

const TensorType& type_of(const CudaQuery& q, int part) {
  return part == kOutput ? q.outputs[0] : q.inputs[static_cast<std::size_t>(part)];
}
void* address_of(const CudaArgs& a, int part) { return part == kOutput ? a.out(0).raw() : a.in(part).raw(); }

// Tensors of the graph, named by it.
struct Names {
  std::int64_t x, filter, y, bias = -1;
};

struct Planned {
  Plan plan;
  Names names;
};

DnnWindow window_of(const ConvGeometry& g) {
  return {{g.stride_h, g.stride_w}, {g.pad_h, g.pad_w}, {g.pad_h, g.pad_w}, {g.dilation_h, g.dilation_w}};
}

enum class Finish : std::uint8_t { none, bias, bias_relu };

// + bias, then perhaps relu, on f32 values that are never in memory.
std::int64_t add_finish(DnnGraph& graph, const Dims& y, const Dims& strides, DType dtype, Finish finish,
                        std::int64_t sums, Names& names) {
  const Dims channels{1, y[1], 1, 1};
  names.bias = graph.tensor(dtype, channels, {y[1], 1, 1, 1});
  const bool relu = finish == Finish::bias_relu;
  names.y = graph.tensor(dtype, y, strides);
  const std::int64_t shifted = relu ? graph.between(CUDNN_DATA_FLOAT, y, strides) : names.y;
  graph.pointwise(CUDNN_POINTWISE_ADD, std::array{sums, names.bias}, shifted);
  if (relu) graph.pointwise(CUDNN_POINTWISE_RELU_FWD, std::array{shifted}, names.y);
  return names.y;
}

Result<Planned> plan_conv(const CudaQuery& q, DnnPass pass, const ConvGeometry& g, Finish finish) {
  const DType dtype = q.outputs[0].dtype, compute = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Dims x{g.n, g.c, g.h, g.w}, filter{g.o, g.cg, g.kh, g.kw}, y{g.n, g.o, g.oh, g.ow};
  const auto strides = [&](const Dims& dims) {
    return q.channels_last ? channels_last(dims) : row_major(dims);
  };
  DnnGraph graph(q.device.lib());
  Names names{graph.tensor(dtype, x, strides(x)), graph.tensor(dtype, filter, strides(filter)), 0};
  if (finish == Finish::none) {
    names.y = graph.tensor(dtype, y, strides(y));
    graph.convolution(pass, names.x, names.filter, names.y, window_of(g), compute);
  } else {
    const std::int64_t sums = graph.between(CUDNN_DATA_FLOAT, y, strides(y));
    graph.convolution(pass, names.x, names.filter, sums, window_of(g), compute);
    add_finish(graph, y, strides(y), dtype, finish, sums, names);
  }
  TR_ASSIGN_OR_RETURN(const CudaDevice::Planning planning, q.device.planning_handle());
  const DnnOptions options{.full_f32 = dtype == DType::kF32 && !q.tf32, .algorithm = q.algorithm};
  TR_ASSIGN_OR_RETURN(auto plans, graph.plans({.handle = planning.handle}, options));
  return Planned{std::move(plans[0]), names};
}

bool is_empty(const CudaQuery& q, const Parts& parts) {
  for (const int part : {parts.x, parts.filter, parts.y})
    if (type_of(q, part).shape.num_elems() == 0) return true;
  return false;
}

// cuDNN wants operands at multiples of 16 bytes. Activations are; weights and their gradients may lie
// anywhere in a bucket, and then go through the workspace.
class Stage {
 public:
  Stage(CudaStream& stream, std::byte* memory) : stream_(stream), memory_(memory) {}
  void* in(void* address, std::size_t bytes) {
    void* const here = place(address);
    if (here != address) copy(here, address, bytes);
    return here;
  }
  void* place(void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) % 16 == 0 ? address : memory_;
  }
  void out(void* address, std::size_t bytes) {
    if (place(address) != address) copy(address, memory_, bytes);
  }
  const Status& status() const { return status_; }

 private:
  void copy(void* to, void* from, std::size_t bytes) {
    const Libraries& lib = stream_.device().lib();
    stream_.device().enter();
    const CUresult result = lib.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                              reinterpret_cast<CUdeviceptr>(from), bytes, stream_.raw());
    if (result != CUDA_SUCCESS) status_ = lib.check(result, "copying weights to an aligned place");
  }
  CudaStream& stream_;
  std::byte* memory_;
  Status status_;
};

std::size_t whole_lines(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::unique_ptr<CudaKernel> run_plan(const CudaQuery& q, const Planned& p, const Parts& parts, int bias) {
  const std::size_t filter_bytes = type_of(q, parts.filter).num_bytes();
  const std::size_t bias_bytes = bias > 0 ? type_of(q, bias).num_bytes() : 0;
  const std::size_t own_bytes = whole_lines(p.plan->workspace_bytes());
  const auto enqueue = [=](const CudaArgs& args) -> Status {
    Stage weights(args.stream, args.workspace + own_bytes);
    Stage shifts(args.stream, args.workspace + own_bytes + whole_lines(filter_bytes));
    void* const filter = address_of(args, parts.filter);
    const bool writes = parts.filter == kOutput;
    const std::array all{
        DnnBinding{p.names.x, address_of(args, parts.x)},
        DnnBinding{p.names.filter, writes ? weights.place(filter) : weights.in(filter, filter_bytes)},
        DnnBinding{p.names.y, address_of(args, parts.y)},
        DnnBinding{p.names.bias, bias > 0 ? shifts.in(address_of(args, bias), bias_bytes) : nullptr}};
    TR_RETURN_IF_ERROR(p.plan->enqueue(args.stream, std::span(all).first(bias > 0 ? 4 : 3), args.workspace));
    if (writes) weights.out(filter, filter_bytes);
    TR_RETURN_IF_ERROR(weights.status());
    return shifts.status();
  };
  return make_kernel(enqueue, own_bytes + whole_lines(filter_bytes) + whole_lines(bias_bytes));
}

// Whether images are so thin that they are worth padding. Gradients of such images are seldom asked for.
bool is_thin(const CudaQuery& q, const Parts& parts, const ConvGeometry& g) {
  return q.channels_last && g.cg == g.c && parts.pass != DnnPass::input_grad &&
         ChannelPadding::pays(q.outputs[0].dtype, g.c);
}

// The same convolution of images and filters with more channels, all of them 0.
Made make_padded(const CudaQuery& q, const Parts& parts, const ConvGeometry& g) {
  ConvGeometry wide = g;
  wide.c = wide.cg = ChannelPadding::kWide;
  TR_ASSIGN_OR_RETURN(const Planned p, plan_conv(q, parts.pass, wide, Finish::none));
  TR_ASSIGN_OR_RETURN(const ChannelPadding pad, ChannelPadding::make(q.device, q.outputs[0].dtype, g.c));
  const std::int64_t pixels = g.n * g.h * g.w, taps = g.o * g.kh * g.kw;
  const std::size_t pixel_bytes = ChannelPadding::kWide * dtype_size(q.outputs[0].dtype);
  const std::size_t own_bytes = whole_lines(p.plan->workspace_bytes());
  const std::size_t image_bytes = whole_lines(static_cast<std::size_t>(pixels) * pixel_bytes);
  const auto enqueue = [=](const CudaArgs& args) -> Status {
    std::byte *const image = args.workspace + own_bytes, *const filter = image + image_bytes;
    void* const narrow = address_of(args, parts.filter);
    TR_RETURN_IF_ERROR(pad.widen(args.stream, address_of(args, parts.x), image, pixels));
    if (parts.filter != kOutput) TR_RETURN_IF_ERROR(pad.widen(args.stream, narrow, filter, taps));
    const std::array all{DnnBinding{p.names.x, image}, DnnBinding{p.names.filter, filter},
                         DnnBinding{p.names.y, address_of(args, parts.y)}};
    TR_RETURN_IF_ERROR(p.plan->enqueue(args.stream, all, args.workspace));
    return parts.filter == kOutput ? pad.narrow(args.stream, filter, narrow, taps) : ok_status();
  };
  return make_kernel(enqueue,
                     own_bytes + image_bytes + whole_lines(static_cast<std::size_t>(taps) * pixel_bytes));
}

// The same convolution of blocks of pixels, without strides.
Made make_blocked(const CudaQuery& q, const Parts& parts, const ConvGeometry& g) {
  TR_ASSIGN_OR_RETURN(const ImageBlocks blocks, ImageBlocks::make(q.device, g));
  TR_ASSIGN_OR_RETURN(const Planned p, plan_conv(q, parts.pass, blocks.blocked(), Finish::none));
  const std::size_t element = dtype_size(q.outputs[0].dtype);
  const std::size_t own_bytes = whole_lines(p.plan->workspace_bytes());
  const std::size_t image_bytes = whole_lines(static_cast<std::size_t>(blocks.image_elems()) * element);
  const auto enqueue = [=](const CudaArgs& args) -> Status {
    std::byte *const image = args.workspace + own_bytes, *const filter = image + image_bytes;
    void* const plain = address_of(args, parts.filter);
    TR_RETURN_IF_ERROR(blocks.block_image(args.stream, address_of(args, parts.x), image));
    if (parts.filter != kOutput) TR_RETURN_IF_ERROR(blocks.block_filter(args.stream, plain, filter));
    const std::array all{DnnBinding{p.names.x, image}, DnnBinding{p.names.filter, filter},
                         DnnBinding{p.names.y, address_of(args, parts.y)}};
    TR_RETURN_IF_ERROR(p.plan->enqueue(args.stream, all, args.workspace));
    return parts.filter == kOutput ? blocks.unblock_filter(args.stream, filter, plain) : ok_status();
  };
  return make_kernel(enqueue, own_bytes + image_bytes +
                                  whole_lines(static_cast<std::size_t>(blocks.filter_elems()) * element));
}

// Algorithms of thin images: cuDNN's for padded pixels at even numbers, for blocks at odd ones; without
// strides the former alone.
Made make_thin(const CudaQuery& q, const Parts& parts, const ConvGeometry& g) {
  if (g.stride_h * g.stride_w == 1) return make_padded(q, parts, g);
  CudaQuery half = q;
  half.algorithm = q.algorithm / 2;
  return q.algorithm % 2 == 0 ? make_padded(half, parts, g) : make_blocked(half, parts, g);
}

Made make_direct(const CudaQuery& q, const Parts& parts, const ConvGeometry& g) {
  TR_ASSIGN_OR_RETURN(const DirectConv conv, DirectConv::make(q, parts.pass, g));
  return make_kernel([conv, parts](const CudaArgs& args) {
    return conv.enqueue(args.stream, address_of(args, parts.x), address_of(args, parts.filter),
                        address_of(args, parts.y));
  });
}

Made make_conv(const CudaQuery& q, const Parts& parts, bool by_library) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g,
                      op::detail::conv_geometry(type_of(q, parts.x), type_of(q, parts.filter), q.attrs));
  if (by_library && !q.device.only_compiles() && !is_empty(q, parts)) {
    if (is_thin(q, parts, g)) {
      Made thin = make_thin(q, parts, g);
      if (thin.ok() || q.algorithm > 0) return thin;
    }
    auto planned = plan_conv(q, parts.pass, g, Finish::none);
    if (planned.ok()) return run_plan(q, *planned, parts, 0);
    if (q.algorithm > 0) return planned.status();
    if (q.channels_last) {
      CudaQuery plain = q;
      plain.channels_last = false;
      TR_ASSIGN_OR_RETURN(std::unique_ptr<CudaKernel> kernel, make_conv(plain, parts, true));
      return make_turned(q, std::move(kernel));
    }
  }
  return make_direct(q, parts, g);
}

}  // namespace

Made make_conv2d(const CudaQuery& q) { return make_conv(q, kForward, true); }
Made make_conv2d_input_grad(const CudaQuery& q) { return make_conv(q, kInputGrad, true); }
Made make_conv2d_filter_grad(const CudaQuery& q) { return make_conv(q, kFilterGrad, true); }
Made make_conv2d_transpose(const CudaQuery& q) { return make_conv(q, kTranspose, true); }
Made make_conv2d_direct(const CudaQuery& q) { return make_conv(q, kForward, false); }
Made make_conv2d_input_grad_direct(const CudaQuery& q) { return make_conv(q, kInputGrad, false); }
Made make_conv2d_filter_grad_direct(const CudaQuery& q) { return make_conv(q, kFilterGrad, false); }
Made make_conv2d_transpose_direct(const CudaQuery& q) { return make_conv(q, kTranspose, false); }

namespace {

// The convolution, then a pass over y.
Made make_bias_act_apart(const CudaQuery& q, const ConvGeometry& g) {
  CudaQuery bare = q;
  bare.inputs = q.inputs.first(2);
  TR_ASSIGN_OR_RETURN(const std::shared_ptr<const CudaKernel> conv, make_conv(bare, kForward, true));
  TR_ASSIGN_OR_RETURN(const BiasRelu finish,
                      BiasRelu::make(q.device, q.outputs[0], g.o, q.channels_last ? 1 : g.oh * g.ow,
                                     q.attrs.get_bool("relu")));
  const auto enqueue = [conv, finish](const CudaArgs& args) -> Status {
    TR_RETURN_IF_ERROR(conv->enqueue({args.inputs.first(2), args.outputs, args.workspace, args.stream}));
    return finish.enqueue(args.stream, args.out(0).raw(), args.in(2).raw());
  };
  return make_kernel(enqueue, conv->workspace_bytes());
}

}  // namespace

// Algorithms: cuDNN's for all of it at even numbers, its own for the convolution alone and a pass over y at
// odd ones. The first is fused where cuDNN fuses.
Made make_conv2d_bias_act(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, op::detail::conv_geometry(q.inputs[0], q.inputs[1], q.attrs));
  CudaQuery half = q;
  half.algorithm = q.algorithm / 2;
  if (q.algorithm % 2 == 1 || q.device.only_compiles() || is_empty(q, kForward))
    return make_bias_act_apart(half, g);
  const Finish finish = q.attrs.get_bool("relu") ? Finish::bias_relu : Finish::bias;
  auto planned = plan_conv(half, DnnPass::forward, g, finish);
  if (planned.ok()) return run_plan(q, *planned, kForward, 2);
  if (q.algorithm == 0) return make_bias_act_apart(half, g);
  // Which of the two lists is longer is not known.
  return error(Code::kUnavailable, "{}", planned.status().message());
}

}  // namespace trireme::kernel::cuda
