// The three convolutions from oneDNN, one single-threaded primitive per slice of images.
//
// oneDNN is never given threads of its own: each slice runs on the pool thread that got it (one_thread.h), so
// that the width fixes the bits. Tensors are row-major at the borders; where a primitive prefers another
// order, the slice is reordered through its part of the workspace. Primitives are const and keep their
// scratchpad in the workspace too, so any number of executions may share them.
//
// Two methods: direct, and Winograd's F(4x4, 3x3) where oneDNN has it (3x3 filters of stride 1, AVX-512),
// which needs a quarter of the products (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks",
// 2016).
//
// bf16: oneDNN adds up in f32 and rounds once. Filter gradients of slices are added in f32 and rounded then.
// Where oneDNN has no fast code for bf16 (the processor, or few channels) the reorders widen to f32 and back.
#ifdef TRIREME_HAVE_ONEDNN

#include <array>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

#include "trireme/kernel/cpu/conv_shape.h"
#include "trireme/kernel/cpu/one_thread.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

using dnnl::memory;
using Descs = std::array<memory::desc, 3>;

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

using Algorithm = dnnl::algorithm;
constexpr Algorithm kDirect = Algorithm::convolution_direct, kWinograd = Algorithm::convolution_winograd;

// Which convolution: operands in the order of the OpDef, the output last.
enum class Kind { kForward, kInputGrad, kFilterGrad };
enum Role { kX, kFilter, kY };
struct KindInfo {
  std::array<Role, 3> roles;
  std::array<int, 3> args;
  ShapeOfOp shape;
};
constexpr KindInfo info(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return {{kX, kFilter, kY}, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}, forward_shape};
    case Kind::kInputGrad:
      return {{kFilter, kY, kX}, {DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}, input_grad_shape};
    default:
      return {{kX, kY, kFilter}, {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}, filter_grad_shape};
  }
}

using Types = std::array<memory::data_type, 3>;  // by Role

// Descriptors by Role: row-major, or left to oneDNN.
Descs descs(const ConvShape& s, const Types& types, bool any) {
  using Tag = memory::format_tag;
  const memory::dims filter = s.groups == 1 ? memory::dims{s.o, s.c, s.kh, s.kw}
                                            : memory::dims{s.groups, s.group_o(), s.group_c(), s.kh, s.kw};
  return {memory::desc({s.n, s.c, s.h, s.w}, types[kX], any ? Tag::any : Tag::nchw),
          memory::desc(filter, types[kFilter], any ? Tag::any : (s.groups == 1 ? Tag::oihw : Tag::goihw)),
          memory::desc({s.n, s.o, s.oh, s.ow}, types[kY], any ? Tag::any : Tag::nchw)};
}

// What the kernel reads and writes. Filter gradients are added up over slices, so they stay wide.
Types border_types(Kind kind, bool bf16) {
  using Type = memory::data_type;
  const Type low = bf16 ? Type::bf16 : Type::f32;
  return {low, kind == Kind::kFilterGrad ? Type::f32 : low, low};
}

// oneDNN's plain loops: slower than any other way.
template <typename Pd>
bool is_plain(const Pd& pd) {
  const std::string_view name = pd.impl_info_str();
  return name.starts_with("ref") || name.starts_with("gemm:ref");
}

// One operand: where the primitive wants another order than row-major, `move` takes it there (or back, for
// the output).
struct Port {
  memory::desc plain, wanted;
  bool moved = false;
  dnnl::reorder move;
  memory::desc move_scratch;
  std::size_t offset = 0, move_scratch_offset = 0;  // in the slice's workspace
};

// Everything for one number of images.
class Plan {
 public:
  Plan(const dnnl::engine& engine, Kind kind, Algorithm algorithm, const ConvShape& s, bool bf16);
  bool ok() const { return ok_; }
  std::size_t workspace_bytes() const { return bytes_; }
  void run(const dnnl::engine& engine, std::byte* a, std::byte* b, std::byte* out,
           std::byte* workspace) const;

 private:
  void make(const dnnl::engine& engine, Kind kind, Algorithm algorithm, const ConvShape& s, bool bf16);
  template <typename Pd>
  void adopt(const Pd& pd, const Descs& wanted);
  void place(const dnnl::engine& engine, Port& port, bool is_output);

  KindInfo info_;
  Descs plain_;
  bool ok_ = false;
  dnnl::primitive conv_;
  memory::desc scratch_;
  std::array<Port, 3> ports_;
  std::size_t scratch_offset_ = 0, bytes_ = 0;
};

Plan::Plan(const dnnl::engine& engine, Kind kind, Algorithm algorithm, const ConvShape& s, bool bf16)
    : info_(info(kind)), plain_(descs(s, border_types(kind, bf16), false)) {
  make(engine, kind, algorithm, s, bf16);
  if (bf16 && !ok_) make(engine, kind, algorithm, s, false);
}

// bf16: only where it is fast.
void Plan::make(const dnnl::engine& engine, Kind kind, Algorithm algorithm, const ConvShape& s, bool bf16) {
  const Descs any = descs(s, border_types(kind, bf16), true);
  const memory::dims strides{s.stride_h, s.stride_w}, dilates{s.dilation_h - 1, s.dilation_w - 1};
  const memory::dims pad_l{s.pad_h, s.pad_w};
  // oneDNN checks that the padding on the right gives exactly the output size.
  const memory::dims pad_r{(s.oh - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1 - s.h - s.pad_h,
                           (s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1 - s.w - s.pad_w};
  const dnnl::primitive_attr attr = user_scratchpad();
  const dnnl::convolution_forward::primitive_desc forward(engine, dnnl::prop_kind::forward_training,
                                                          algorithm, any[kX], any[kFilter], any[kY], strides,
                                                          dilates, pad_l, pad_r, attr,
                                                          /*allow_empty=*/true);
  if (!forward) return;
  if (kind == Kind::kForward) {
    if (bf16 && is_plain(forward)) return;
    adopt(forward, {forward.src_desc(), forward.weights_desc(), forward.dst_desc()});
    if (ok_) conv_ = dnnl::convolution_forward(forward);
  } else if (kind == Kind::kInputGrad) {
    const dnnl::convolution_backward_data::primitive_desc pd(engine, algorithm, any[kX], any[kFilter],
                                                             any[kY], strides, dilates, pad_l, pad_r, forward,
                                                             attr, true);
    if (!pd || (bf16 && is_plain(pd))) return;
    adopt(pd, {pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc()});
    conv_ = dnnl::convolution_backward_data(pd);
  } else {
    const dnnl::convolution_backward_weights::primitive_desc pd(engine, algorithm, any[kX], any[kFilter],
                                                                any[kY], strides, dilates, pad_l, pad_r,
                                                                forward, attr, true);
    if (!pd || (bf16 && is_plain(pd))) return;
    adopt(pd, {pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc()});
    conv_ = dnnl::convolution_backward_weights(pd);
  }
  for (std::size_t i = 0; i < 3; ++i) place(engine, ports_[i], /*is_output=*/i == 2);
}

template <typename Pd>
void Plan::adopt(const Pd& pd, const Descs& wanted) {
  ok_ = true;
  scratch_ = pd.scratchpad_desc();
  bytes_ = round_up(scratch_.get_size());
  for (std::size_t i = 0; i < 3; ++i)
    ports_[i].plain = plain_[info_.roles[i]], ports_[i].wanted = wanted[info_.roles[i]];
}

void Plan::place(const dnnl::engine& engine, Port& port, bool is_output) {
  port.moved = port.plain != port.wanted;
  if (!port.moved) return;
  port.offset = bytes_;
  bytes_ += round_up(port.wanted.get_size());
  const dnnl::reorder::primitive_desc pd(engine, is_output ? port.wanted : port.plain, engine,
                                         is_output ? port.plain : port.wanted, user_scratchpad());
  port.move_scratch = pd.scratchpad_desc();
  port.move_scratch_offset = bytes_;
  bytes_ += round_up(port.move_scratch.get_size());
  port.move = dnnl::reorder(pd);
}

void Plan::run(const dnnl::engine& engine, std::byte* a, std::byte* b, std::byte* out,
               std::byte* workspace) const {
  const OneThread one_thread;
  dnnl::stream stream(engine);
  std::byte* const operands[] = {a, b, out};  // oneDNN does not write its inputs
  std::unordered_map<int, memory> args{
      {DNNL_ARG_SCRATCHPAD, memory(scratch_, engine, workspace + scratch_offset_)}};
  std::array<memory, 3> plain, wanted;
  const auto move = [&](const Port& port, const memory& from, const memory& to) {
    port.move.execute(stream, {{DNNL_ARG_FROM, from},
                               {DNNL_ARG_TO, to},
                               {DNNL_ARG_SCRATCHPAD,
                                memory(port.move_scratch, engine, workspace + port.move_scratch_offset)}});
  };
  for (std::size_t i = 0; i < 3; ++i) {
    const Port& port = ports_[i];
    plain[i] = memory(port.plain, engine, operands[i]);
    wanted[i] = port.moved ? memory(port.wanted, engine, workspace + port.offset) : plain[i];
    if (port.moved && i < 2) move(port, plain[i], wanted[i]);
    args.emplace(info_.args[i], wanted[i]);
  }
  conv_.execute(stream, args);
  if (ports_[2].moved) move(ports_[2], wanted[2], plain[2]);
}

// ---- Rows
// -----------------------------------------------------------------------------------------------------------
// Slices differ by at most one image: two plans serve them all.
class ConvState final : public op::KernelState {
 public:
  ConvState(Kind kind, Algorithm algorithm, const ConvShape& s, int width, bool bf16)
      : engine_(dnnl::engine::kind::cpu, 0),
        bf16_(bf16),
        slices_(conv_slices(s, width)),
        smaller_n_(s.n / slices_),
        filter_bytes_(kind == Kind::kFilterGrad
                          ? round_up(static_cast<std::size_t>(s.o * s.taps()) * sizeof(float))
                          : 0),
        smaller_(engine_, kind, algorithm, with_images(s, smaller_n_), bf16),
        larger_(engine_, kind, algorithm, with_images(s, smaller_n_ + 1), bf16) {}

  bool ok() const { return smaller_.ok() && larger_.ok(); }
  bool bf16() const { return bf16_; }
  int slices() const { return slices_; }
  // Of the primitives, then a partial filter gradient.
  std::size_t slice_bytes() const { return partial_offset() + filter_bytes_; }
  std::size_t partial_offset() const {
    return std::max(smaller_.workspace_bytes(), larger_.workspace_bytes());
  }
  void run(std::int64_t n, std::byte* a, std::byte* b, std::byte* out, std::byte* workspace) const {
    (n == smaller_n_ ? smaller_ : larger_).run(engine_, a, b, out, workspace);
  }

 private:
  static ConvShape with_images(ConvShape s, std::int64_t n) {
    s.n = n;
    return s;
  }

  dnnl::engine engine_;
  bool bf16_;
  int slices_;
  std::int64_t smaller_n_;
  std::size_t filter_bytes_;
  Plan smaller_, larger_;
};

template <Kind kKind, Algorithm kAlgorithm>
std::unique_ptr<ConvState> make_state(const op::KernelQuery& q) {
  const OneThread one_thread;  // primitives are made for the number of threads that they find
  return std::make_unique<ConvState>(kKind, kAlgorithm, info(kKind).shape(q.inputs, q.outputs, q.attrs),
                                     q.width, q.inputs[0].dtype == DType::kBF16);
}

template <Kind kKind, Algorithm kAlgorithm>
bool applicable(const op::KernelQuery& q) {
  if (!(all_of_dtype(q, DType::kBF16) || all_f32(q)) || !fits_int32(q) ||
      !method_allows(q.attrs, kAlgorithm == kWinograd ? "winograd" : "direct"))
    return false;
  const ConvShape s = info(kKind).shape(q.inputs, q.outputs, q.attrs);
  if (s.macs() == 0) return false;
  // Gradients of few channels are faster by im2col: into one channel, 3x3 of 32 on 28x28, 0.4 ms against 3.5.
  // The other two are not: AlexNet's 11x11 of three channels takes half the time of im2col here, ResNet's 7x7
  // 0.8 of it, 5x5 of one channel the same.
  constexpr std::int64_t kMinChannels = 8;
  const bool may_decline =
      kAlgorithm == kDirect && q.inputs[0].dtype == DType::kF32 && method_allows(q.attrs, "im2col");
  if (may_decline && kKind == Kind::kInputGrad && s.groups == 1 && s.c < kMinChannels) return false;
  return make_state<kKind, kAlgorithm>(q)->ok();
}

template <Kind kKind, Algorithm kAlgorithm>
std::size_t workspace_bytes(const op::KernelQuery& q) {
  const auto state = make_state<kKind, kAlgorithm>(q);
  return state->slice_bytes() * static_cast<std::size_t>(state->slices());
}

template <Kind kKind, Algorithm kAlgorithm>
std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) {
  return make_state<kKind, kAlgorithm>(q);
}

template <Kind kKind>
void run(op::KernelArgs& args) {
  const auto& state = static_cast<const ConvState&>(*args.state);
  const ConvShape s = shape_of_call(info(kKind).shape, args);
  TR_CHECK(args.in(0).is_contiguous() && args.in(1).is_contiguous());
  const std::int64_t per_image[] = {s.c * s.h * s.w, 0, s.o * s.oh * s.ow};  // by Role: the filter is whole
  const auto bytes = static_cast<std::int64_t>(dtype_size(args.out(0).dtype()));
  const auto at = [&](const Tensor& t, std::size_t operand, std::int64_t image) {
    return t.raw() + image * per_image[info(kKind).roles[operand]] * bytes;
  };
  const auto workspace = [&](int slice) { return args.workspace.data() + slice * state.slice_bytes(); };
  const auto partial = [&](int slice) { return workspace(slice) + state.partial_offset(); };
  // The first slice of a filter gradient writes to the output, unless that is rounded at the end.
  const auto in_place = [&](int slice) {
    return kKind != Kind::kFilterGrad || (slice == 0 && !state.bf16());
  };
  for_slices(args.parallel, s.n, state.slices(), [&](std::int64_t begin, std::int64_t end, int slice) {
    state.run(end - begin, at(args.in(0), 0, begin), at(args.in(1), 1, begin),
              in_place(slice) ? at(args.out(0), 2, begin) : partial(slice), workspace(slice));
  });
  if (kKind != Kind::kFilterGrad) return;
  // Partial gradients in slice order, whatever thread adds them.
  const VectorLoops& loops = vector_loops();
  auto* const sum = reinterpret_cast<float*>(state.bf16() ? partial(0) : args.out(0).raw());
  for_elems(args.parallel, s.o * s.taps(), [&](std::int64_t begin, std::int64_t end) {
    for (int slice = 1; slice < state.slices(); ++slice)
      loops.add(sum + begin, reinterpret_cast<const float*>(partial(slice)) + begin, sum + begin,
                end - begin);
    if (state.bf16())
      loops.f32_to_bf16(sum + begin, reinterpret_cast<std::uint16_t*>(args.out(0).raw()) + begin,
                        end - begin);
  });
}

template <Kind kKind, Algorithm kAlgorithm>
constexpr op::KernelRow row(const char* op) {
  return {.op = op,
          .name = kAlgorithm == kWinograd ? "onednn_winograd" : "onednn",
          .run = run<kKind>,
          .applicable = applicable<kKind, kAlgorithm>,
          .workspace_bytes = workspace_bytes<kKind, kAlgorithm>,
          .prepare = prepare<kKind, kAlgorithm>};
}

}  // namespace

constinit const op::KernelRow kConv2dOnednn = row<Kind::kForward, kDirect>("conv2d");
constinit const op::KernelRow kConv2dInputGradOnednn = row<Kind::kInputGrad, kDirect>("conv2d_input_grad");
constinit const op::KernelRow kConv2dFilterGradOnednn = row<Kind::kFilterGrad, kDirect>("conv2d_filter_grad");
constinit const op::KernelRow kConv2dOnednnWinograd = row<Kind::kForward, kWinograd>("conv2d");
constinit const op::KernelRow kConv2dInputGradOnednnWinograd =
    row<Kind::kInputGrad, kWinograd>("conv2d_input_grad");
constinit const op::KernelRow kConv2dFilterGradOnednnWinograd =
    row<Kind::kFilterGrad, kWinograd>("conv2d_filter_grad");

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
