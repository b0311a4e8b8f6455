// The three convolutions of f32 and bf16 images with the channels last, from oneDNN: images
// are read and written where they are, which is the order that the processor's bf16 units want. As in
// onednn_conv2d.cc, single-threaded primitives of slices; the width fixes the bits.
//
// Filters, which oneDNN wants in blocks, are reordered once for all slices; filter gradients are added in
// f32.
#ifdef TRIREME_HAVE_ONEDNN

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>

#include "trireme/kernel/cpu/conv/conv_last.h"
#include "trireme/kernel/cpu/one_thread.h"
#include "trireme/kernel/cpu/onednn_parts.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using dnnl::memory;
using Type = memory::data_type;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;
// An element of an image is read, turned around by the bf16 units and read again.
int image_bytes(Type type) { return type == Type::bf16 ? 6 : 4; }
int elem_bytes(Type type) { return type == Type::bf16 ? 2 : 4; }

using Kind = ConvKind;

// [O,KH,KW,C / groups], as it is in the graph.
memory::desc plain_filter(const ConvShape& s, Type type) {
  const std::int64_t c = s.group_c(), one = s.taps();
  if (s.groups == 1) return {filter_dims(s), type, memory::dims{one, 1, s.kw * c, c}};
  return {filter_dims(s), type, memory::dims{s.group_o() * one, one, 1, s.kw * c, c}};
}

// A primitive for some images, and some output channels.
class Part {
 public:
  // The filter is in the order `filter`, or in any where that is empty.
  Part(const dnnl::engine& engine, Kind kind, const ConvShape& s, Type type, const memory::desc& filter) {
    const auto image = memory::format_tag::nhwc;
    const memory::desc x({s.n, s.c, s.h, s.w}, type, image), y({s.n, s.o, s.oh, s.ow}, type, image);
    const memory::desc any(filter_dims(s), type, memory::format_tag::any),
        any_f32(filter_dims(s), Type::f32, memory::format_tag::any);
    const memory::dims strides{s.stride_h, s.stride_w}, dilates{s.dilation_h - 1, s.dilation_w - 1};
    const memory::dims pad_l{s.pad_h, s.pad_w};
    const memory::dims pad_r = right_padding(s);
    const dnnl::primitive_attr attr = user_scratchpad();
    x_ = x, y_ = y;
    const bool forth = kind == Kind::kForward;
    const dnnl::convolution_forward::primitive_desc forward(
        engine, dnnl::prop_kind::forward_training, kDirect, x, forth && !filter.is_zero() ? filter : any, y,
        strides, dilates, pad_l, pad_r, attr, /*allow_empty=*/true);
    if (!forward) return;
    if (forth) {
      if (adopt(forward)) conv_ = dnnl::convolution_forward(forward), filter_ = forward.weights_desc();
    } else if (kind == Kind::kInputGrad) {
      const dnnl::convolution_backward_data::primitive_desc pd(engine, kDirect, x,
                                                               filter.is_zero() ? any : filter, y, strides,
                                                               dilates, pad_l, pad_r, forward, attr, true);
      if (adopt(pd)) conv_ = dnnl::convolution_backward_data(pd), filter_ = pd.weights_desc();
    } else {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          engine, kDirect, x, filter.is_zero() ? any_f32 : filter, y, strides, dilates, pad_l, pad_r, forward,
          attr, true);
      if (adopt(pd)) conv_ = dnnl::convolution_backward_weights(pd), filter_ = pd.diff_weights_desc();
    }
  }

  bool ok() const { return ok_; }
  std::size_t scratch_bytes() const { return round_up(scratch_.get_size()); }
  const memory::desc& filter() const { return filter_; }
  void run(const dnnl::engine& engine, Kind kind, std::byte* x, std::byte* filter, std::byte* y,
           std::byte* scratch) const {
    const OneThread one_thread;
    dnnl::stream stream(engine);
    const std::array<int, 3> names = conv_args(kind);
    conv_.execute(stream, {{names[0], memory(x_, engine, x)},
                           {names[1], memory(filter_, engine, filter)},
                           {names[2], memory(y_, engine, y)},
                           {DNNL_ARG_SCRATCHPAD, memory(scratch_, engine, scratch)}});
  }

 private:
  template <typename Pd>
  bool adopt(const Pd& pd) {
    if (!pd || is_plain(pd)) return false;
    scratch_ = pd.scratchpad_desc();
    return ok_ = true;
  }

  bool ok_ = false;
  dnnl::primitive conv_;
  memory::desc x_, y_, filter_, scratch_;
};

ConvShape cut(ConvShape s, std::int64_t images, std::int64_t channels) {
  s.n = images, s.o = channels;
  return s;
}

class LastState final : public op::KernelState {
 public:
  LastState(Kind kind, const ConvShape& s, Type type, int width)
      : kind_(kind),
        s_(s),
        elem_bytes_(elem_bytes(type)),
        cut_(ConvCut::of(kind, s, width, image_bytes(type))),
        engine_(dnnl::engine::kind::cpu, 0),
        smaller_(engine_, kind, part(s.n / cut_.images), type, {}),
        larger_(engine_, kind, part(std::min(s.n, s.n / cut_.images + 1)), type, smaller_.filter()) {
    if (!smaller_.ok() || !larger_.ok()) return;
    move_.emplace(engine_, part(1), plain_filter(part(1), type), smaller_.filter(), kind == Kind::kFilterGrad,
                  width);
    ok_ = move_->ok();
    scratch_bytes_ = std::max({smaller_.scratch_bytes(), larger_.scratch_bytes(), move_->scratch_bytes()});
    filter_bytes_ = round_up(smaller_.filter().get_size());
    if (cut_.channels > 1)
      dy_bytes_ = round_up(static_cast<std::size_t>(most_images() * part(1).o * s.oh * s.ow * elem_bytes_));
  }

  bool ok() const { return ok_; }
  // Filters first: one, or one for every part; then what each of the slices has for itself.
  std::size_t workspace_bytes() const {
    return filters() * filter_bytes_ + static_cast<std::size_t>(slices()) * (scratch_bytes_ + dy_bytes_);
  }
  void run(op::KernelArgs& args) const {
    if (kind_ == Kind::kFilterGrad) return run_filter_grad(args);
    std::byte* const given = args.in(kind_ == Kind::kForward ? 1 : 0).raw();
    std::byte* const x = (kind_ == Kind::kForward ? args.in(0) : args.out(0)).raw();
    std::byte* const y = (kind_ == Kind::kForward ? args.out(0) : args.in(1)).raw();
    std::byte* const filter = args.workspace.data();
    for_slices(args.parallel, move_->pieces(), move_->pieces(), [&](std::int64_t, std::int64_t, int i) {
      move_->run(engine_, i, given, filter, own(args, i));
    });
    for_each_dynamic(args.parallel, cut_.images, cut_.threads, [&](std::int64_t i, int slice) {
      const auto [begin, end] = slice_range(s_.n, cut_.images, static_cast<int>(i));
      of(end - begin)
          .run(engine_, kind_, x + begin * x_bytes(), filter, y + begin * y_bytes(), own(args, slice));
    });
  }

 private:
  ConvShape part(std::int64_t images) const { return cut(s_, images, s_.o / cut_.channels); }
  std::int64_t most_images() const { return (s_.n + cut_.images - 1) / cut_.images; }
  std::size_t filters() const {
    return kind_ == Kind::kFilterGrad ? static_cast<std::size_t>(cut_.count()) : 1;
  }
  int slices() const { return std::max(cut_.threads, move_->pieces() * cut_.channels); }
  const Part& of(std::int64_t images) const { return images == s_.n / cut_.images ? smaller_ : larger_; }
  std::int64_t x_bytes() const { return elem_bytes_ * s_.c * s_.h * s_.w; }  // of an image
  std::int64_t y_bytes() const { return elem_bytes_ * s_.o * s_.oh * s_.ow; }
  std::byte* own(const op::KernelArgs& args, int slice) const {
    return args.workspace.data() + filters() * filter_bytes_ +
           static_cast<std::size_t>(slice) * (scratch_bytes_ + dy_bytes_);
  }

  void run_filter_grad(op::KernelArgs& args) const {
    std::byte *const x = args.in(0).raw(), *const dy = args.in(1).raw(), *const out = args.out(0).raw();
    const auto partial = [&](int i) {
      return args.workspace.data() + static_cast<std::size_t>(i) * filter_bytes_;
    };
    for_slices(args.parallel, cut_.count(), cut_.count(), [&](std::int64_t, std::int64_t, int i) {
      const auto [begin, end] = slice_range(s_.n, cut_.images, i / cut_.channels);
      std::byte* from = dy + begin * y_bytes();
      if (cut_.channels > 1)
        from = gather(from, end - begin, i % cut_.channels, own(args, i) + scratch_bytes_);
      of(end - begin).run(engine_, kind_, x + begin * x_bytes(), partial(i), from, own(args, i));
    });
    const auto floats = static_cast<std::int64_t>(smaller_.filter().get_size() / sizeof(float));
    add_partials(args.parallel, cut_, floats, partial);
    move_sums(args.parallel, engine_, cut_, *move_, partial, out, elem_bytes_ * part(1).o * s_.taps(),
              [&](int i) { return own(args, i); });
  }

  // Part `channel` of the channels of some images, dense.
  std::byte* gather(const std::byte* dy, std::int64_t images, int channel, std::byte* to) const {
    const std::int64_t bytes = elem_bytes_ * part(1).o, pixel = elem_bytes_ * s_.o;
    for (std::int64_t p = 0; p < images * s_.oh * s_.ow; ++p)
      std::memcpy(to + p * bytes, dy + p * pixel + channel * bytes, static_cast<std::size_t>(bytes));
    return to;
  }

  Kind kind_;
  ConvShape s_;
  std::int64_t elem_bytes_;
  ConvCut cut_;
  dnnl::engine engine_;
  Part smaller_, larger_;
  std::optional<FilterMove> move_;
  bool ok_ = false;
  std::size_t scratch_bytes_ = 0, filter_bytes_ = 0, dy_bytes_ = 0;
};

std::unique_ptr<LastState> make_state(const op::KernelQuery& q) {
  const bool low = q.outputs[0].dtype == DType::kBF16;
  const auto conv = LastConv::of(q, low ? DType::kBF16 : DType::kF32, "direct");
  if (!conv) return nullptr;
  const OneThread one_thread;  // primitives are made for the number of threads that they find
  auto state = std::make_unique<LastState>(conv->kind, conv->shape, low ? Type::bf16 : Type::f32, q.width);
  if (!state->ok()) state.reset();
  return state;
}

constexpr op::KernelRow last_row(const char* op) {
  return {
      .op = op,
      .name = "onednn",
      .run = [](op::KernelArgs& args) { static_cast<const LastState&>(*args.state).run(args); },
      .applicable = [](const op::KernelQuery& q) { return make_state(q) != nullptr; },
      .workspace_bytes = [](const op::KernelQuery& q) { return make_state(q)->workspace_bytes(); },
      .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> { return make_state(q); },
      .takes = takes_channels_last};
}

}  // namespace

extern constinit const op::KernelRow kConv2dLastOnednn = last_row("conv2d");
extern constinit const op::KernelRow kConv2dInputGradLastOnednn = last_row("conv2d_input_grad");
extern constinit const op::KernelRow kConv2dFilterGradLastOnednn = last_row("conv2d_filter_grad");

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
