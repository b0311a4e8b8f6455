// avg_pool2d and its gradient, plane by plane: a tap of the window at a time for a whole row of windows, in
// an order that adds the terms of an element as the reference does.
#include <algorithm>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/nn/avg_pool2d.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using op::detail::PoolGeometry;
using op::detail::PoolWindow;
using op::detail::window_at;

template <typename Fn>
void for_planes(op::KernelArgs& args, const PoolGeometry& g, const Fn& fn) {
  const std::int64_t planes = g.n * g.c, taps = g.oh * g.ow * g.window_h * g.window_w;
  for_slices(args.parallel, planes,
             num_slices(planes, planes * (g.h * g.w + taps / 4), args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int slice) {
               for (std::int64_t p = begin; p < end; ++p) fn(p, slice);
             });
}

// The windows of a row whose tap `kw` lies inside the image: [begin, end).
struct Inside {
  std::int64_t begin, end;
};
Inside windows_inside(const PoolGeometry& g, std::int64_t kw) {
  const std::int64_t first = g.pad_w - kw, last = g.w + g.pad_w - kw;  // first <= ow stride < last
  return {first <= 0 ? 0 : (first + g.stride_w - 1) / g.stride_w,
          std::min(g.ow, last <= 0 ? 0 : (last + g.stride_w - 1) / g.stride_w)};
}

void run_pool(op::KernelArgs& args) {
  const PoolGeometry g = *op::detail::pool_geometry(args.in(0).type(), args.attrs);
  const bool include_pad = args.attrs.get_bool("count_include_pad");
  const float* x = f32_in(args, 0);
  float* y = f32_out(args, 0);
  for_planes(args, g, [&](std::int64_t p, int) {
    for (std::int64_t oh = 0; oh < g.oh; ++oh) {
      float* row = y + (p * g.oh + oh) * g.ow;
      std::fill(row, row + g.ow, 0.0F);
      const PoolWindow first = window_at(g, oh, 0);
      for (std::int64_t h = first.h0; h < first.h1; ++h)
        for (std::int64_t kw = 0; kw < g.window_w; ++kw) {
          const Inside in = windows_inside(g, kw);
          const float* from = x + (p * g.h + h) * g.w + kw - g.pad_w;
          for (std::int64_t ow = in.begin; ow < in.end; ++ow) row[ow] += from[ow * g.stride_w];
        }
      for (std::int64_t ow = 0; ow < g.ow; ++ow)
        row[ow] /= static_cast<float>(op::detail::window_count(g, window_at(g, oh, ow), include_pad));
    }
  });
}

// A row of dy over the sizes of its windows, per slice.
std::size_t grad_workspace(const op::KernelQuery& q) {
  return static_cast<std::size_t>(q.width * q.inputs[0].shape[3]) * sizeof(float);
}

void run_grad(op::KernelArgs& args) {
  const PoolGeometry g = *op::detail::pool_geometry(args.out(0).type(), args.attrs);
  const bool include_pad = args.attrs.get_bool("count_include_pad");
  const float* dy = f32_in(args, 0);
  float* dx = f32_out(args, 0);
  auto* scratch = reinterpret_cast<float*>(args.workspace.data());
  for_planes(args, g, [&](std::int64_t p, int slice) {
    float* shares = scratch + slice * g.ow;
    float* plane = dx + p * g.h * g.w;
    std::fill(plane, plane + g.h * g.w, 0.0F);
    for (std::int64_t oh = 0; oh < g.oh; ++oh) {
      const float* row = dy + (p * g.oh + oh) * g.ow;
      for (std::int64_t ow = 0; ow < g.ow; ++ow)
        shares[ow] =
            row[ow] / static_cast<float>(op::detail::window_count(g, window_at(g, oh, ow), include_pad));
      const PoolWindow first = window_at(g, oh, 0);
      for (std::int64_t h = first.h0; h < first.h1; ++h)
        // An element gets its windows from left to right.
        for (std::int64_t kw = g.window_w - 1; kw >= 0; --kw) {
          const Inside in = windows_inside(g, kw);
          float* to = plane + h * g.w + kw - g.pad_w;
          for (std::int64_t ow = in.begin; ow < in.end; ++ow) to[ow * g.stride_w] += shares[ow];
        }
    }
  });
}

}  // namespace

extern const op::KernelRow kAvgPool2dPlanes{
    .op = "avg_pool2d", .name = "planes", .run = run_pool, .applicable = all_f32};
extern const op::KernelRow kAvgPool2dGradPlanes{.op = "avg_pool2d_grad",
                                                .name = "planes",
                                                .run = run_grad,
                                                .applicable = all_f32,
                                                .workspace_bytes = grad_workspace};

}  // namespace trireme::kernel
