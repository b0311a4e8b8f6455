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

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "trireme/kernel/cpu/conv/conv_shape.h"
#include "trireme/kernel/cpu/one_thread.h"
#include "trireme/kernel/cpu/onednn_parts.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using dnnl::memory;
using Type = memory::data_type;
using Kind = ConvKind;

using Algorithm = dnnl::algorithm;
constexpr Algorithm kDirect = Algorithm::convolution_direct, kWinograd = Algorithm::convolution_winograd;
constexpr int kImageBytes = 12;  // of an element: read, turned around and read again

constexpr ShapeOfOp shape_fn(Kind kind) {
  return kind == Kind::kForward     ? forward_shape
         : kind == Kind::kInputGrad ? input_grad_shape
                                    : filter_grad_shape;
}

// Images: where the primitive wants another order than row-major, `move` takes them there (or back, for a
// result).
struct Port {
  memory::desc plain, wanted;
  bool moved = false, is_result = false;
  dnnl::reorder move;
  memory::desc move_scratch;
  std::size_t offset = 0, move_scratch_offset = 0;  // in the slice's workspace
};

// A convolution as it is asked for; `bf16`: computed so, else in f32, whatever the graph has.
struct Call {
  Kind kind;
  Algorithm algorithm;
  Type border;  // of operands and results
  bool bf16;
};

// A primitive for some images and some output channels of `whole`.
class Plan {
 public:
  // The filter is in the order `filter`, or in any where that is empty.
  Plan(const dnnl::engine& engine, const Call& call, const ConvShape& whole, const ConvShape& s,
       const memory::desc& filter) {
    const memory::dims y_strides{whole.o * s.oh * s.ow, s.oh * s.ow, s.ow, 1};
    x_.plain = {{s.n, s.c, s.h, s.w}, call.border, memory::format_tag::nchw};
    y_.plain = {{s.n, s.o, s.oh, s.ow}, call.border, y_strides};
    x_.is_result = call.kind == Kind::kInputGrad;
    y_.is_result = call.kind == Kind::kForward;
    make(engine, call, s, filter);
    if (ok_)
      for (Port* port : {&x_, &y_}) place(engine, *port);
  }

  bool ok() const { return ok_; }
  std::size_t workspace_bytes() const { return bytes_; }
  const memory::desc& filter() const { return filter_; }
  void run(const dnnl::engine& engine, Kind kind, std::byte* x, std::byte* filter, std::byte* y,
           std::byte* workspace) const;

 private:
  void make(const dnnl::engine& engine, const Call& call, const ConvShape& s, const memory::desc& filter);
  template <typename Pd>
  bool adopt(const Pd& pd, bool bf16) {
    if (!pd || (bf16 && is_plain(pd))) return false;
    scratch_ = pd.scratchpad_desc();
    bytes_ = round_up(scratch_.get_size());
    return ok_ = true;
  }
  void place(const dnnl::engine& engine, Port& port);

  bool ok_ = false;
  dnnl::primitive conv_;
  memory::desc scratch_, filter_;
  Port x_, y_;
  std::size_t bytes_ = 0;  // the scratchpad comes first
};

// bf16: only where it is fast. Filter gradients are added up over slices, so they stay wide.
void Plan::make(const dnnl::engine& engine, const Call& call, const ConvShape& s,
                const memory::desc& filter) {
  constexpr auto kAny = memory::format_tag::any;
  const Type low = call.bf16 ? Type::bf16 : Type::f32;
  const bool back = call.kind == Kind::kFilterGrad;
  const memory::desc x({s.n, s.c, s.h, s.w}, low, kAny), y({s.n, s.o, s.oh, s.ow}, low, kAny),
      any(filter_dims(s), low, kAny);
  const memory::desc own =
      !filter.is_zero() ? filter : memory::desc(filter_dims(s), back ? Type::f32 : low, kAny);
  const memory::dims strides{s.stride_h, s.stride_w}, dilates{s.dilation_h - 1, s.dilation_w - 1},
      pad_l{s.pad_h, s.pad_w}, pad_r = right_padding(s);
  const dnnl::primitive_attr attr = user_scratchpad();
  const dnnl::convolution_forward::primitive_desc forward(
      engine, dnnl::prop_kind::forward_training, call.algorithm, x, call.kind == Kind::kForward ? own : any,
      y, strides, dilates, pad_l, pad_r, attr, /*allow_empty=*/true);
  if (!forward) return;
  if (call.kind == Kind::kForward) {
    if (!adopt(forward, call.bf16)) return;
    conv_ = dnnl::convolution_forward(forward);
    x_.wanted = forward.src_desc(), filter_ = forward.weights_desc(), y_.wanted = forward.dst_desc();
  } else if (call.kind == Kind::kInputGrad) {
    const dnnl::convolution_backward_data::primitive_desc pd(engine, call.algorithm, x, own, y, strides,
                                                             dilates, pad_l, pad_r, forward, attr, true);
    if (!adopt(pd, call.bf16)) return;
    conv_ = dnnl::convolution_backward_data(pd);
    x_.wanted = pd.diff_src_desc(), filter_ = pd.weights_desc(), y_.wanted = pd.diff_dst_desc();
  } else {
    const dnnl::convolution_backward_weights::primitive_desc pd(engine, call.algorithm, x, own, y, strides,
                                                                dilates, pad_l, pad_r, forward, attr, true);
    if (!adopt(pd, call.bf16)) return;
    conv_ = dnnl::convolution_backward_weights(pd);
    x_.wanted = pd.src_desc(), filter_ = pd.diff_weights_desc(), y_.wanted = pd.diff_dst_desc();
  }
}

void Plan::place(const dnnl::engine& engine, Port& port) {
  port.moved = port.plain != port.wanted;
  if (!port.moved) return;
  port.offset = bytes_;
  bytes_ += round_up(port.wanted.get_size());
  const dnnl::reorder::primitive_desc pd(engine, port.is_result ? port.wanted : port.plain, engine,
                                         port.is_result ? port.plain : port.wanted, user_scratchpad());
  port.move_scratch = pd.scratchpad_desc();
  port.move_scratch_offset = bytes_;
  bytes_ += round_up(port.move_scratch.get_size());
  port.move = dnnl::reorder(pd);
}

void Plan::run(const dnnl::engine& engine, Kind kind, std::byte* x, std::byte* filter, std::byte* y,
               std::byte* workspace) const {
  const OneThread one_thread;
  dnnl::stream stream(engine);
  const std::array<int, 3> names = conv_args(kind);
  std::unordered_map<int, memory> args{{DNNL_ARG_SCRATCHPAD, memory(scratch_, engine, workspace)},
                                       {names[1], memory(filter_, engine, filter)}};
  const auto move = [&](const Port& port, std::byte* plain) {
    const memory there(port.wanted, engine, workspace + port.offset), here(port.plain, engine, plain);
    port.move.execute(stream, {{DNNL_ARG_FROM, port.is_result ? there : here},
                               {DNNL_ARG_TO, port.is_result ? here : there},
                               {DNNL_ARG_SCRATCHPAD,
                                memory(port.move_scratch, engine, workspace + port.move_scratch_offset)}});
  };
  const std::array<std::pair<const Port*, std::byte*>, 2> images{{{&x_, x}, {&y_, y}}};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& [port, at] = images[i];
    if (port->moved && !port->is_result) move(*port, at);
    args.emplace(names[2 * i], port->moved ? memory(port->wanted, engine, workspace + port->offset)
                                           : memory(port->plain, engine, at));
  }
  conv_.execute(stream, args);
  for (const auto& [port, at] : images)
    if (port->moved && port->is_result) move(*port, at);
}

// ---- Rows

// Parts differ by at most one image: two plans serve them all. Filters are in the primitives' order once for
// all parts; partial gradients are added in that order, and the sum is moved.
class ConvState final : public op::KernelState {
 public:
  ConvState(const Call& call, const ConvShape& s, int width)
      : call_(call),
        s_(s),
        cut_(cut_of(call, s, width)),
        engine_(dnnl::engine::kind::cpu, 0),
        smaller_(engine_, call, s, part(s.n / cut_.images), {}),
        larger_(engine_, call, s, part(std::min(s.n, s.n / cut_.images + 1)), smaller_.filter()) {
    if (!smaller_.ok() || !larger_.ok()) return;
    ok_ = true;
    filter_bytes_ = round_up(smaller_.filter().get_size());
    slice_bytes_ = std::max(smaller_.workspace_bytes(), larger_.workspace_bytes());
    const ConvShape one = part(1);
    const memory::desc plain(filter_dims(one), call.border,
                             one.groups == 1 ? memory::format_tag::oihw : memory::format_tag::goihw);
    if (plain == smaller_.filter()) return;
    move_.emplace(engine_, one, plain, smaller_.filter(), is_sum(), width);
    ok_ = move_->ok();
    slice_bytes_ = std::max(slice_bytes_, move_->scratch_bytes());
  }

  bool ok() const { return ok_; }
  // Filters first, then what each of the slices has for itself.
  std::size_t workspace_bytes() const {
    return num_filters() * filter_bytes_ + static_cast<std::size_t>(num_slices()) * slice_bytes_;
  }
  void run(op::KernelArgs& args) const { is_sum() ? run_filter_grad(args) : run_images(args); }

 private:
  // Winograd's tiles of several images go together.
  static ConvCut cut_of(const Call& call, const ConvShape& s, int width) {
    ConvCut cut = ConvCut::of(call.kind, s, width, kImageBytes);
    if (call.algorithm == kWinograd && call.kind != Kind::kFilterGrad) cut.images = cut.threads;
    return cut;
  }
  bool is_sum() const { return call_.kind == Kind::kFilterGrad; }
  ConvShape part(std::int64_t images) const {
    ConvShape s = s_;
    s.n = images, s.o /= cut_.channels;
    return s;
  }
  int pieces() const { return move_ ? move_->pieces() * cut_.channels : 1; }
  int num_slices() const { return std::max(cut_.threads, pieces()); }
  // Where no order is to be changed, the first gradients are written where they belong.
  int first_partial() const { return move_ ? 0 : cut_.channels; }
  std::size_t num_filters() const {
    if (!is_sum()) return move_ ? 1 : 0;
    return static_cast<std::size_t>(cut_.count() - first_partial());
  }
  const Plan& of(std::int64_t images) const { return images == s_.n / cut_.images ? smaller_ : larger_; }
  std::int64_t elem_bytes() const { return call_.border == Type::bf16 ? 2 : 4; }
  std::byte* own(const op::KernelArgs& args, std::int64_t slice) const {
    return args.workspace.data() + num_filters() * filter_bytes_ +
           static_cast<std::size_t>(slice) * slice_bytes_;
  }
  // Images [begin, end) of one part of the channels.
  void run_part(const op::KernelArgs& args, std::byte* x, std::byte* filter, std::byte* y, SliceRange images,
                int channel, int slice) const {
    const std::int64_t x_at = images.begin * s_.c * s_.h * s_.w,
                       y_at = (images.begin * s_.o + channel * part(1).o) * s_.oh * s_.ow;
    of(images.end - images.begin)
        .run(engine_, call_.kind, x + elem_bytes() * x_at, filter, y + elem_bytes() * y_at, own(args, slice));
  }

  void run_images(op::KernelArgs& args) const {
    const bool forth = call_.kind == Kind::kForward;
    std::byte* const x = (forth ? args.in(0) : args.out(0)).raw();
    std::byte* const y = (forth ? args.out(0) : args.in(1)).raw();
    std::byte* filter = args.in(forth ? 1 : 0).raw();
    if (move_) {
      std::byte* const to = args.workspace.data();
      for_slices(args.parallel, pieces(), pieces(), [&](std::int64_t, std::int64_t, int i) {
        move_->run(engine_, i, filter, to, own(args, i));
      });
      filter = to;
    }
    for_each_dynamic(args.parallel, cut_.images, cut_.threads, [&](std::int64_t i, int slice) {
      run_part(args, x, filter, y, slice_range(s_.n, cut_.images, static_cast<int>(i)), 0, slice);
    });
  }

  void run_filter_grad(op::KernelArgs& args) const {
    std::byte* const out = args.out(0).raw();
    const std::int64_t part_bytes = elem_bytes() * part(1).o * s_.taps();
    const auto partial = [&](int i) {
      if (i < first_partial()) return out + i * part_bytes;
      return args.workspace.data() + static_cast<std::size_t>(i - first_partial()) * filter_bytes_;
    };
    for_slices(args.parallel, cut_.count(), cut_.count(), [&](std::int64_t, std::int64_t, int i) {
      run_part(args, args.in(0).raw(), partial(i), args.in(1).raw(),
               slice_range(s_.n, cut_.images, i / cut_.channels), i % cut_.channels, i);
    });
    const auto floats = static_cast<std::int64_t>(smaller_.filter().get_size() / sizeof(float));
    add_partials(args.parallel, cut_, floats, partial);
    if (move_)
      move_sums(args.parallel, engine_, cut_, *move_, partial, out, part_bytes,
                [&](int i) { return own(args, i); });
  }

  Call call_;
  ConvShape s_;
  ConvCut cut_;
  dnnl::engine engine_;
  Plan smaller_, larger_;
  std::optional<FilterMove> move_;
  bool ok_ = false;
  std::size_t filter_bytes_ = 0, slice_bytes_ = 0;
};

template <Kind kKind, Algorithm kAlgorithm>
std::unique_ptr<ConvState> make_state(const op::KernelQuery& q) {
  const OneThread one_thread;  // primitives are made for the number of threads that they find
  const ConvShape s = shape_fn(kKind)(q.inputs, q.outputs, q.attrs);
  const bool bf16 = q.inputs[0].dtype == DType::kBF16;
  Call call{kKind, kAlgorithm, bf16 ? Type::bf16 : Type::f32, bf16};
  auto state = std::make_unique<ConvState>(call, s, q.width);
  if (state->ok() || !bf16) return state;
  call.bf16 = false;
  return std::make_unique<ConvState>(call, s, q.width);
}

template <Kind kKind, Algorithm kAlgorithm>
bool applicable(const op::KernelQuery& q) {
  if (!(all_of_dtype(q, DType::kBF16) || all_f32(q)) || !fits_int32(q) ||
      !method_allows(q.attrs, kAlgorithm == kWinograd ? "winograd" : "direct"))
    return false;
  const ConvShape s = shape_fn(kKind)(q.inputs, q.outputs, q.attrs);
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
  return make_state<kKind, kAlgorithm>(q)->workspace_bytes();
}

template <Kind kKind, Algorithm kAlgorithm>
std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) {
  return make_state<kKind, kAlgorithm>(q);
}

void run(op::KernelArgs& args) {
  TR_CHECK(args.in(0).is_contiguous() && args.in(1).is_contiguous());
  static_cast<const ConvState&>(*args.state).run(args);
}

template <Kind kKind, Algorithm kAlgorithm>
constexpr op::KernelRow row(const char* op) {
  return {.op = op,
          .name = kAlgorithm == kWinograd ? "onednn_winograd" : "onednn",
          .run = run,
          .applicable = applicable<kKind, kAlgorithm>,
          .workspace_bytes = workspace_bytes<kKind, kAlgorithm>,
          .prepare = prepare<kKind, kAlgorithm>};
}

}  // namespace

extern constinit const op::KernelRow kConv2dOnednn = row<Kind::kForward, kDirect>("conv2d");
extern constinit const op::KernelRow kConv2dInputGradOnednn =
    row<Kind::kInputGrad, kDirect>("conv2d_input_grad");
extern constinit const op::KernelRow kConv2dFilterGradOnednn =
    row<Kind::kFilterGrad, kDirect>("conv2d_filter_grad");
extern constinit const op::KernelRow kConv2dOnednnWinograd = row<Kind::kForward, kWinograd>("conv2d");
extern constinit const op::KernelRow kConv2dInputGradOnednnWinograd =
    row<Kind::kInputGrad, kWinograd>("conv2d_input_grad");
extern constinit const op::KernelRow kConv2dFilterGradOnednnWinograd =
    row<Kind::kFilterGrad, kWinograd>("conv2d_filter_grad");

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
