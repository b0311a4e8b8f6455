// max_pool2d_places and its gradient of f32 images with the channels last: all channels of a
// pixel at once. The gradient reads which pixel won every window, so each pixel adds up the gradients of the
// windows that it won, in the order of the windows, and images are not read.
#include <array>
#include <cstring>

#include "trireme/kernel/cpu/conv/pool_last.h"
#include "trireme/kernel/cpu/formed.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/channel_loops.h"
#include "trireme/op/fused/max_pool2d_places.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

void pool_row(const LastPool& s, const float* image, std::int64_t oy, float* y, std::uint8_t* places) {
  const std::int64_t top = oy * s.stride_h - s.pad_h;
  std::array<std::int64_t, 256> offsets;
  std::array<std::uint8_t, 256> taps;
  for (std::int64_t ox = 0; ox < s.ow; ++ox) {
    const std::int64_t left = ox * s.stride_w - s.pad_w;
    std::size_t count = 0;
    for (std::int64_t h = std::max<std::int64_t>(top, 0); h < std::min(top + s.window_h, s.h); ++h)
      for (std::int64_t w = std::max<std::int64_t>(left, 0); w < std::min(left + s.window_w, s.w); ++w) {
        offsets[count] = (h * s.w + w) * s.c;
        taps[count++] = static_cast<std::uint8_t>((h - top) * s.window_w + w - left);
      }
    channel_loops().window_winners(image, offsets.data(), taps.data(), static_cast<std::int64_t>(count),
                                   y + ox * s.c, places + ox * s.c, s.c);
  }
}

void grad_row(const LastPool& s, const float* dy, const std::uint8_t* places, std::int64_t h, float* dx) {
  const SliceRange rows = windows_at(h, s.window_h, s.stride_h, s.pad_h, s.oh);
  for (std::int64_t w = 0; w < s.w; ++w) {
    const SliceRange columns = windows_at(w, s.window_w, s.stride_w, s.pad_w, s.ow);
    float* const pixel = dx + w * s.c;
    bool first = true;
    for (std::int64_t oy = rows.begin; oy < rows.end; ++oy)
      for (std::int64_t ox = columns.begin; ox < columns.end; ++ox, first = false) {
        const std::int64_t at = oy * s.out_row() + ox * s.c;
        const auto tap = static_cast<std::int32_t>((h - (oy * s.stride_h - s.pad_h)) * s.window_w + w -
                                                   (ox * s.stride_w - s.pad_w));
        (first ? channel_loops().take_where : channel_loops().add_where)(dy + at, places + at, tap, pixel,
                                                                         s.c);
      }
    if (first) std::memset(pixel, 0, static_cast<std::size_t>(s.c) * sizeof(float));
  }
}

bool is_grad(const op::KernelQuery& q) { return &q.def == &op::kMaxPool2dPlacesGrad; }

class PlacesState final : public op::KernelState {
 public:
  PlacesState(const op::KernelQuery& q, const op::MemoryTypes& types)
      : grad_(is_grad(q)),
        s_(grad_ ? types.outputs[0].shape : types.inputs[0].shape,
           grad_ ? types.inputs[0].shape : types.outputs[0].shape, q.attrs) {}

  void run(op::KernelArgs& args) const {
    const std::int64_t items = s_.n * (grad_ ? s_.h : s_.oh);
    for_slices(args.parallel, items, num_slices(items, s_.n * s_.c * s_.h * s_.w, args.parallel.width()),
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) grad_ ? back(args, i) : forth(args, i);
               });
  }

 private:
  void forth(op::KernelArgs& args, std::int64_t i) const {
    pool_row(s_, f32_in(args, 0) + i / s_.oh * s_.h * s_.row(), i % s_.oh,
             f32_out(args, 0) + i * s_.out_row(),
             args.out(1).values<std::uint8_t>().data() + i * s_.out_row());
  }
  void back(op::KernelArgs& args, std::int64_t i) const {
    const std::int64_t from = i / s_.h * s_.oh * s_.out_row();
    grad_row(s_, f32_in(args, 0) + from, args.in(1).values<std::uint8_t>().data() + from, i % s_.h,
             f32_out(args, 0) + i * s_.row());
  }

  bool grad_;
  LastPool s_;
};

bool applicable(const op::KernelQuery& q) {
  return op::MemoryTypes(q).channels_last && q.inputs[0].dtype == DType::kF32 &&
         q.outputs[0].dtype == DType::kF32 && fits_int32(q);
}

constexpr op::KernelRow places_row(const char* op) {
  return {.op = op,
          .name = "places",
          .run = [](op::KernelArgs& args) { static_cast<const PlacesState&>(*args.state).run(args); },
          .applicable = applicable,
          .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> {
            return std::make_unique<PlacesState>(q, op::MemoryTypes(q));
          },
          .takes = takes_channels_last};
}

}  // namespace

extern constinit const op::KernelRow kMaxPool2dPlacesLast = places_row("max_pool2d_places");
extern constinit const op::KernelRow kMaxPool2dPlacesGradLast = places_row("max_pool2d_places_grad");

}  // namespace trireme::kernel
