// max_pool2d_places and its gradient, plane by plane: a byte per window says which of its elements is the
// first maximum, so that the gradient reads no images.
#include <array>
#include <cstring>

#include "trireme/kernel/cpu/conv/pool_windows.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

bool applicable(const op::KernelQuery& q) { return q.inputs[0].dtype == DType::kF32 && fits_int32(q); }

std::size_t workspace_bytes(const op::KernelQuery& q) {
  const PoolShape s = pool_shape(q.inputs[0].shape, q.outputs[0].shape, q.attrs);
  return s.is_two_by_two() ? 0 : static_cast<std::size_t>(pool_slices(s, q.width)) * RowOfWindows::bytes(s);
}

void pool_plane(const PoolShape& s, const float* x, float* y, std::uint8_t* places, std::byte* memory) {
  RowOfWindows row(s, memory);
  for (std::int64_t oy = 0; oy < s.oh; ++oy) {
    row.find(x, oy);
    std::copy_n(row.values(), s.ow, y + oy * s.ow);
    // The place of row r and column c in x is r * window_w + c, from the window's first element on.
    const auto above = static_cast<std::int32_t>(row.top() / s.w - (oy * s.stride_h - s.pad_h));
    const auto width = static_cast<std::int32_t>(s.w), window = static_cast<std::int32_t>(s.window_w);
    const std::int32_t* const at = row.offsets();
    for (std::int32_t ox = 0; ox < s.ow; ++ox) {
      std::int32_t r = 0;
      for (std::int32_t k = 1; k < s.window_h; ++k) r += at[ox] >= k * width ? 1 : 0;
      const std::int32_t first =
          ox * static_cast<std::int32_t>(s.stride_w) - static_cast<std::int32_t>(s.pad_w);
      places[oy * s.ow + ox] = static_cast<std::uint8_t>((r + above) * window + at[ox] - r * width - first);
    }
  }
}

void run(op::KernelArgs& args) {
  const PoolShape s = pool_shape(args.in(0).shape(), args.out(0).shape(), args.attrs);
  const float* x = f32_in(args, 0);
  float* y = f32_out(args, 0);
  std::uint8_t* places = args.out(1).values<std::uint8_t>().data();
  for_planes(args.parallel, s, [&](std::int64_t p, int slice) {
    const float* xp = x + p * s.h * s.w;
    const std::int64_t out = p * s.oh * s.ow;
    if (!s.is_two_by_two())
      return pool_plane(s, xp, y + out, places + out,
                        args.workspace.data() + static_cast<std::size_t>(slice) * RowOfWindows::bytes(s));
    for (std::int64_t oy = 0; oy < s.oh; ++oy)
      vector_loops().max_pool2_places(xp + 2 * oy * s.w, xp + (2 * oy + 1) * s.w, y + out + oy * s.ow,
                                      places + out + oy * s.ow, s.ow);
  });
}

void grad_plane_two_by_two(const PoolShape& s, const float* dy, const std::uint8_t* places, float* dx) {
  for (std::int64_t oy = 0; oy < s.oh; ++oy) {
    const std::int64_t top = 2 * oy * s.w, bottom = top + s.w;
    vector_loops().max_pool2_places_grad(dy + oy * s.ow, places + oy * s.ow, dx + top, dx + bottom, s.ow);
    for (std::int64_t j = 2 * s.ow; j < s.w; ++j) dx[top + j] = dx[bottom + j] = 0;
  }
  std::memset(dx + 2 * s.oh * s.w, 0, static_cast<std::size_t>((s.h - 2 * s.oh) * s.w) * sizeof(float));
}

// Where the elements of a window lie, from its first on.
struct Elements {
  std::array<std::int64_t, 256> row{}, column{};
  explicit Elements(const PoolShape& s) {
    for (std::int64_t i = 0; i < 256; ++i) {
      const bool inside = i < s.window_h * s.window_w;
      row[static_cast<std::size_t>(i)] = inside ? i / s.window_w : s.h + s.pad_h;  // out of every image
      column[static_cast<std::size_t>(i)] = i % s.window_w;
    }
  }
};

void grad_plane(const PoolShape& s, const Elements& elements, const float* dy, const std::uint8_t* places,
                float* dx) {
  std::memset(dx, 0, static_cast<std::size_t>(s.h * s.w) * sizeof(float));
  for (std::int64_t oy = 0; oy < s.oh; ++oy)
    for (std::int64_t ox = 0; ox < s.ow; ++ox) {
      const std::size_t place = places[oy * s.ow + ox];
      const std::int64_t h = oy * s.stride_h - s.pad_h + elements.row[place],
                         w = ox * s.stride_w - s.pad_w + elements.column[place];
      if (h >= 0 && h < s.h && w >= 0 && w < s.w) dx[h * s.w + w] += dy[oy * s.ow + ox];
    }
}

void run_grad(op::KernelArgs& args) {
  const PoolShape s = pool_shape(args.out(0).shape(), args.in(0).shape(), args.attrs);
  const float* dy = f32_in(args, 0);
  const std::uint8_t* places = args.in(1).values<std::uint8_t>().data();
  float* dx = f32_out(args, 0);
  const Elements elements(s);
  for_planes(args.parallel, s, [&](std::int64_t p, int) {
    const std::int64_t in = p * s.h * s.w, out = p * s.oh * s.ow;
    if (s.is_two_by_two())
      grad_plane_two_by_two(s, dy + out, places + out, dx + in);
    else
      grad_plane(s, elements, dy + out, places + out, dx + in);
  });
}

}  // namespace

extern const op::KernelRow kMaxPool2dPlacesVector{.op = "max_pool2d_places",
                                                  .name = "vector",
                                                  .run = run,
                                                  .applicable = applicable,
                                                  .workspace_bytes = workspace_bytes};
extern const op::KernelRow kMaxPool2dPlacesGradVector{
    .op = "max_pool2d_places_grad", .name = "vector", .run = run_grad, .applicable = applicable};

}  // namespace trireme::kernel
