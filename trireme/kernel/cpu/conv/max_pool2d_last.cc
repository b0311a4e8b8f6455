// max_pool2d and its gradient of images with the channels last, [N,H,W,C] of f32 or bf16.
//
// A row of windows looks at window_h rows of its image, which are widened to f32 first; all channels of a
// pixel compete at once. Backward, the winners of an image are noted as taps of their windows, and every
// pixel adds up the gradients of the windows that it won, in the order of the windows.
#include <algorithm>
#include <cstring>
#include <limits>

#include "trireme/kernel/cpu/conv/pool_last.h"
#include "trireme/kernel/cpu/formed.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/channel_loops.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/op/op.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {
namespace {

std::int64_t padded(std::int64_t elems) { return (elems + 15) / 16 * 16; }

// One slice's part of the workspace.
struct Scratch {
  float *rows, *best, *sum, *dy;  // rows of the image in f32; of a window; a row of gradients; of the image
  std::int32_t* at;               // taps, of a window
  std::uint8_t* winners;          // taps, of the image

  static std::int64_t elems(const LastPool& s, bool grad) {
    return padded(s.window_h * s.row()) + 2 * padded(s.c) +
           (grad ? padded(s.row()) + padded(s.oh * s.out_row()) + padded(s.oh * s.out_row() / 4 + 1) : 0);
  }
  Scratch(const LastPool& s, bool grad, std::byte* memory) {
    rows = reinterpret_cast<float*>(memory);
    best = rows + padded(s.window_h * s.row());
    at = reinterpret_cast<std::int32_t*>(best + padded(s.c));
    sum = best + 2 * padded(s.c);
    dy = grad ? sum + padded(s.row()) : nullptr;
    winners = grad ? reinterpret_cast<std::uint8_t*>(dy + padded(s.oh * s.out_row())) : nullptr;
  }
};

void widen(const Tensor& t, std::int64_t at, float* to, std::int64_t n) {
  if (t.dtype() == DType::kBF16)
    vector_loops().bf16_to_f32(reinterpret_cast<const std::uint16_t*>(t.raw()) + at, to, n);
  else
    std::memcpy(to, reinterpret_cast<const float*>(t.raw()) + at,
                static_cast<std::size_t>(n) * sizeof(float));
}
void narrow(const float* from, const Tensor& t, std::int64_t at, std::int64_t n) {
  if (t.dtype() == DType::kBF16)
    vector_loops().f32_to_bf16(from, reinterpret_cast<std::uint16_t*>(t.raw()) + at, n);
  else
    std::memcpy(reinterpret_cast<float*>(t.raw()) + at, from, static_cast<std::size_t>(n) * sizeof(float));
}

// Calls fn(ox) for the windows of row `oy` in their order, with the winners in to.best and to.at.
template <typename Fn>
void for_windows(const LastPool& s, const Tensor& x, std::int64_t image, std::int64_t oy, const Scratch& to,
                 const Fn& fn) {
  const std::int64_t top = oy * s.stride_h - s.pad_h, first = std::max<std::int64_t>(top, 0),
                     end = std::min(top + s.window_h, s.h);
  widen(x, (image * s.h + first) * s.row(), to.rows, (end - first) * s.row());
  const ChannelLoops& loops = channel_loops();
  for (std::int64_t ox = 0; ox < s.ow; ++ox) {
    const std::int64_t left = ox * s.stride_w - s.pad_w;
    for (std::int64_t y = first; y < end; ++y)
      for (std::int64_t j = std::max<std::int64_t>(left, 0); j < std::min(left + s.window_w, s.w); ++j) {
        const auto tap = static_cast<std::int32_t>((y - top) * s.window_w + j - left);
        const float* pixel = to.rows + (y - first) * s.row() + j * s.c;
        if (y == first && j == std::max<std::int64_t>(left, 0)) {
          std::copy_n(pixel, s.c, to.best);
          std::fill_n(to.at, s.c, tap);
        } else {
          loops.compete(pixel, tap, to.best, to.at, s.c);
        }
      }
    fn(ox);
  }
}

void pool_image(const LastPool& s, const Tensor& x, const Tensor& y, std::int64_t image, const Scratch& to) {
  for (std::int64_t oy = 0; oy < s.oh; ++oy)
    for_windows(s, x, image, oy, to,
                [&](std::int64_t ox) { narrow(to.best, y, ((image * s.oh + oy) * s.ow + ox) * s.c, s.c); });
}

void grad_image(const LastPool& s, const Tensor& x, const Tensor& dy, const Tensor& dx, std::int64_t image,
                const Scratch& to) {
  for (std::int64_t oy = 0; oy < s.oh; ++oy)
    for_windows(s, x, image, oy, to, [&](std::int64_t ox) {
      std::uint8_t* winners = to.winners + oy * s.out_row() + ox * s.c;
      for (std::int64_t c = 0; c < s.c; ++c) winners[c] = static_cast<std::uint8_t>(to.at[c]);
    });
  widen(dy, image * s.oh * s.out_row(), to.dy, s.oh * s.out_row());
  for (std::int64_t y = 0; y < s.h; ++y) {
    std::fill_n(to.sum, s.row(), 0.0F);
    const SliceRange rows = windows_at(y, s.window_h, s.stride_h, s.pad_h, s.oh);
    for (std::int64_t j = 0; j < s.w; ++j) {
      const SliceRange columns = windows_at(j, s.window_w, s.stride_w, s.pad_w, s.ow);
      for (std::int64_t oy = rows.begin; oy < rows.end; ++oy)
        for (std::int64_t ox = columns.begin; ox < columns.end; ++ox) {
          const std::int64_t tap =
              (y - (oy * s.stride_h - s.pad_h)) * s.window_w + j - (ox * s.stride_w - s.pad_w);
          const std::int64_t at = oy * s.out_row() + ox * s.c;
          channel_loops().add_where(to.dy + at, to.winners + at, static_cast<std::int32_t>(tap),
                                    to.sum + j * s.c, s.c);
        }
    }
    narrow(to.sum, dx, (image * s.h + y) * s.row(), s.row());
  }
}

bool is_grad(const op::KernelQuery& q) { return &q.def == &op::kMaxPool2dGrad; }
LastPool shape_of(const op::KernelQuery& q) {
  const op::MemoryTypes types(q);
  return {types.inputs[0].shape, is_grad(q) ? types.inputs[1].shape : types.outputs[0].shape, q.attrs};
}

bool applicable(const op::KernelQuery& q) {
  if (!op::MemoryTypes(q).channels_last) return false;
  const auto known = [](const TensorType& t) { return t.dtype == DType::kF32 || t.dtype == DType::kBF16; };
  const LastPool s = shape_of(q);
  return std::all_of(q.inputs.begin(), q.inputs.end(), known) && known(q.outputs[0]) && fits_int32(q) &&
         s.window_h * s.window_w <= std::numeric_limits<std::uint8_t>::max();
}

class PoolState final : public op::KernelState {
 public:
  explicit PoolState(const op::KernelQuery& q) : grad_(is_grad(q)), shape_(shape_of(q)) {}
  std::size_t slice_bytes() const {
    return static_cast<std::size_t>(Scratch::elems(shape_, grad_)) * sizeof(float);
  }
  std::size_t workspace_bytes(int width) const {
    return slice_bytes() * static_cast<std::size_t>(shape_.slices(width));
  }
  void run(op::KernelArgs& args) const {
    for_slices(args.parallel, shape_.n, shape_.slices(args.parallel.width()),
               [&](std::int64_t begin, std::int64_t end, int slice) {
                 const Scratch to(shape_, grad_,
                                  args.workspace.data() + static_cast<std::size_t>(slice) * slice_bytes());
                 for (std::int64_t i = begin; i < end; ++i) {
                   if (grad_)
                     grad_image(shape_, args.in(0), args.in(2), args.out(0), i, to);
                   else
                     pool_image(shape_, args.in(0), args.out(0), i, to);
                 }
               });
  }

 private:
  bool grad_;
  LastPool shape_;
};

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) { return std::make_unique<PoolState>(q); }

constexpr op::KernelRow windows_row(const char* op) {
  return {.op = op,
          .name = "windows",
          .run = [](op::KernelArgs& args) { static_cast<const PoolState&>(*args.state).run(args); },
          .applicable = applicable,
          .workspace_bytes = [](const op::KernelQuery& q) { return PoolState(q).workspace_bytes(q.width); },
          .prepare = prepare,
          .takes = takes_channels_last};
}

}  // namespace

extern constinit const op::KernelRow kMaxPool2dWindows = windows_row("max_pool2d");
extern constinit const op::KernelRow kMaxPool2dGradWindows = windows_row("max_pool2d_grad");

}  // namespace trireme::kernel
