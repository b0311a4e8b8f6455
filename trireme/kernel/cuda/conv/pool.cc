// Pooling over windows of x [N,C,H,W], also with the channels last in memory, and its gradients: every
// element of a result is one thread's sum in the order of the reference kernels. Windows, strides and padding
// are constants of the text, so that the taps of small windows are loaded side by side.
#include "trireme/kernel/cuda/conv/pool_last.h"
#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/fused/max_pool2d_places.h"

namespace trireme::kernel::cuda {
namespace {

using op::detail::PoolGeometry;

// What a text of windows does with the elements of one, or a text of spreading with its gradient.
constexpr const char* kModes = "enum { kMax, kPick, kBoth, kWhere, kAverage, kRoot };\n";

struct Sizes {  // as the texts have it
  std::int64_t planes, h, w, oh, ow;
  std::int64_t group;  // planes that the threads of the grid take at once
};

// A thread has one window position and takes it in every group-th plane: its place is divided out once.
constexpr const char* kWindows = R"cuda(
struct Sizes { i64 planes, h, w, oh, ow, group; };

extern "C" __global__ void pool_windows(const In* __restrict__ x, const Given* __restrict__ picked, Out* __restrict__ out,
                                        Where* __restrict__ places, Sizes s, double eps) {
  const Int h = (Int)s.h, w = (Int)s.w, ow = (Int)s.ow, per_plane = (Int)(s.oh * s.ow);
  const i64 at = first_index();
  if (at >= s.group * per_plane) return;
  const Int place = (Int)(at % per_plane), top = place / ow * kStrideH - kPadH, left = place % ow * kStrideW - kPadW;
  // Small windows are walked whole, large ones as far as they lie inside.
  const Int a0 = kSmall || top > 0 ? 0 : -top, a1 = kSmall || h - top > kWindowH ? kWindowH : h - top;
  const Int b0 = kSmall || left > 0 ? 0 : -left, b1 = kSmall || w - left > kWindowW ? kWindowW : w - left;
  // What lies outside never wins, so a window of nothing else than -inf keeps its first element.
  const A low = -(A)__int_as_float(0x7f800000), outside = kMode <= kWhere ? low : A(0);
  const Int first_row = top > 0 ? top : 0, first_column = left > 0 ? left : 0;
  const Int first = kSmall ? (first_row - top) * kWindowW + first_column - left : first_row * w + first_column;
  for (i64 p = at / per_plane; p < s.planes; p += s.group) {
    const In* plane = x + p * s.h * s.w;
    A best = low, total = 0;
    Int where = first;  // of the first maximum: its tap in a small window, else its place in the plane
#pragma unroll kUnroll
    for (Int a = a0; a < a1; ++a) {
#pragma unroll kUnroll
      for (Int b = b0; b < b1; ++b) {
        const Int r = top + a, c = left + b;
        const bool inside = !kPadded || (r >= 0 && r < h && c >= 0 && c < w);
        const A e = inside ? (A)load_acc(plane[r * w + c]) : outside;
        if (kMode == kAverage) total += e;
        if (kMode == kRoot) total += e * e;
        if (kMode <= kWhere && best == best && !(e <= best)) {  // larger, or the first NaN
          best = e;
          where = kSmall ? a * kWindowW + b : r * w + c;
        }
      }
    }
    const i64 to = p * per_plane + place;
    if (kMode == kMax || kMode == kBoth) out[to] = store_acc<Out>(best);
    if (kMode == kBoth || kMode == kWhere) places[to] = (Where)where;
    if (kMode == kPick) {
      const Int r = kSmall ? top + where / kWindowW : where / w;
      const Int c = kSmall ? left + where % kWindowW : where % w;
      out[to] = store_acc<Out>(load_acc(picked[p * s.h * s.w + r * w + c]));
    }
    if (kMode == kRoot) out[to] = store_acc<Out>(sqrt(total + (A)eps));
    if (kMode == kAverage) {
      const i64 rows = (top + kWindowH < h ? top + kWindowH : h) - (top > 0 ? top : 0);
      const i64 columns = (left + kWindowW < w ? left + kWindowW : w) - (left > 0 ? left : 0);
      out[to] = store_acc<Out>(total / (A)(kWholeCount ? (i64)kWindowH * kWindowW : rows * columns));
    }
  }
}
)cuda";

// Gradients of max pooling (where: which tap of each window is its maximum) and of averages. A thread has a
// patch of one stride by one stride of dx, since the windows over it are then at constant distances.
constexpr const char* kSpread = R"cuda(
struct Sizes { i64 planes, h, w, oh, ow, group; };

__device__ A share(const Given* dy, i64 at, Int row, Int column, Int h, Int w) {
  const A d = load_acc(dy[at]);
  if (kMode == kMax) return d;
  const Int top = row * kStrideH - kPadH, left = column * kStrideW - kPadW;
  const i64 rows = (top + kWindowH < h ? top + kWindowH : h) - (top > 0 ? top : 0);
  const i64 columns = (left + kWindowW < w ? left + kWindowW : w) - (left > 0 ? left : 0);
  return d / (A)(kWholeCount ? (i64)kWindowH * kWindowW : rows * columns);
}

)cuda";
constexpr const char* kSpreadPatches = R"cuda(
extern "C" __global__ void pool_spread(const Where* __restrict__ where, const Given* __restrict__ dy, Out* __restrict__ dx,
                                       Sizes s, int packed) {
  // Windows over rows 0 ... kStrideH - 1 of a patch, counted from the window that begins at its row -kPadH.
  constexpr int kFirstH = -((kWindowH - 1 - kPadH) / kStrideH), kLastH = (kStrideH - 1 + kPadH) / kStrideH;
  constexpr int kFirstW = -((kWindowW - 1 - kPadW) / kStrideW), kLastW = (kStrideW - 1 + kPadW) / kStrideW;
  constexpr int kPack = kStrideW == 2 || kStrideW == 4 ? kStrideW : 1;
  const Int h = (Int)s.h, w = (Int)s.w, oh = (Int)s.oh, ow = (Int)s.ow;
  const Int patches_w = (w + kStrideW - 1) / kStrideW, per_plane = (h + kStrideH - 1) / kStrideH * patches_w;
  const i64 at = first_index();
  if (at >= s.group * per_plane) return;
  const Int pr = (Int)(at % per_plane) / patches_w, pc = (Int)(at % per_plane) % patches_w;
  for (i64 p = at / per_plane; p < s.planes; p += s.group) {
    const i64 windows = p * s.oh * s.ow;
    A sums[kStrideH][kStrideW] = {};
#pragma unroll
    for (int i = kFirstH; i <= kLastH; ++i) {
#pragma unroll
      for (int j = kFirstW; j <= kLastW; ++j) {
        const Int row = pr + i, column = pc + j;
        const bool there = row >= 0 && row < oh && column >= 0 && column < ow;
        const i64 window = windows + row * ow + column;
        const A d = there ? share(dy, window, row, column, h, w) : A(0);
        const int hit = kMode == kMax && there ? (int)where[window] : -1;
#pragma unroll
        for (int r = 0; r < kStrideH; ++r) {
#pragma unroll
          for (int c = 0; c < kStrideW; ++c) {
            const int a = r - i * kStrideH + kPadH, b = c - j * kStrideW + kPadW;
            if (a < 0 || a >= kWindowH || b < 0 || b >= kWindowW) continue;
            if (kMode == kMax ? hit == a * kWindowW + b : there) sums[r][c] += d;
          }
        }
      }
    }
    Out* to = dx + p * s.h * s.w + (i64)pr * kStrideH * w + (i64)pc * kStrideW;
#pragma unroll
    for (int r = 0; r < kStrideH; ++r) {
      if (pr * kStrideH + r >= h) continue;
      Pack<Out, kPack> row[kStrideW / kPack];
#pragma unroll
      for (int c = 0; c < kStrideW; ++c) row[c / kPack].v[c % kPack] = store_acc<Out>(sums[r][c]);
      if (packed) {
        *(Pack<Out, kPack>*)(to + (i64)r * w) = row[0];
        continue;
      }
#pragma unroll
      for (int c = 0; c < kStrideW; ++c)
        if (pc * kStrideW + c < w) to[(i64)r * w + c] = row[c / kPack].v[c % kPack];
    }
  }
}
)cuda";
constexpr const char* kSpreadPlain = R"cuda(
extern "C" __global__ void pool_spread(const Where* __restrict__ where, const Given* __restrict__ dy, Out* __restrict__ dx,
                                       Sizes s, int) {
  const Int h = (Int)s.h, w = (Int)s.w, oh = (Int)s.oh, ow = (Int)s.ow, per_plane = h * w;
  const i64 at = first_index();
  if (at >= s.group * per_plane) return;
  const Int place = (Int)(at % per_plane), r = place / w, c = place % w;
  const Int row0 = r + kPadH < kWindowH ? 0 : (r + kPadH - kWindowH) / kStrideH + 1;
  const Int column0 = c + kPadW < kWindowW ? 0 : (c + kPadW - kWindowW) / kStrideW + 1;
  const Int row1 = (r + kPadH) / kStrideH, column1 = (c + kPadW) / kStrideW;
  for (i64 p = at / per_plane; p < s.planes; p += s.group) {
    A sum = 0;
    for (Int row = row0; row <= row1 && row < oh; ++row) {
      for (Int column = column0; column <= column1 && column < ow; ++column) {
        const i64 window = p * s.oh * s.ow + row * ow + column;
        if (kMode == kMax) {
          const Int tap = (r - row * kStrideH + kPadH) * kWindowW + c - column * kStrideW + kPadW;
          if ((Int)where[window] != (kSmall ? tap : place)) continue;
        }
        sum += share(dy, window, row, column, h, w);
      }
    }
    dx[p * s.h * s.w + place] = store_acc<Out>(sum);
  }
}
)cuda";

constexpr std::int64_t kSmallTaps = op::detail::kMostPlaces, kThreads = 256;
constexpr std::byte* kNone = nullptr;

bool is_small(const PoolGeometry& g) { return op::detail::has_places(g); }
// A patch of dx lies below few windows: the text that unrolls them stays short.
bool has_patches(const PoolGeometry& g) { return is_small(g) && g.stride_h <= 4 && g.stride_w <= 4; }

// `given`: dtype of the operand that goes with windows or images. Operands may differ in dtype (op
// `adapted`).
std::string constants(const CudaQuery& q, const PoolGeometry& g, const char* mode, DType given) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 30;  // sums of two sizes stay below 2^31
  const bool narrow = g.h * g.w < kHalf && g.oh * g.ow < kHalf && g.h + g.pad_h < kHalf &&
                      g.w + g.pad_w < kHalf && g.window_h < kHalf && g.window_w < kHalf &&
                      g.stride_h < kHalf && g.stride_w < kHalf;
  const bool small = is_small(g);
  const auto* include_pad = q.attrs.find("count_include_pad");
  std::string text = kModes;
  text += fmt::format("typedef {} In; typedef {} Given; typedef {} Out; typedef {} A;\n",
                      cuda_type(q.inputs[0].dtype), cuda_type(given), cuda_type(q.outputs[0].dtype),
                      q.inputs[0].dtype == DType::kF64 || given == DType::kF64 ? "double" : "float");
  text += fmt::format("typedef {} Int; typedef {} Where;\n", narrow ? "int" : "i64", small ? "u8" : "i64");
  text += fmt::format(
      "constexpr Int kWindowH = {}, kWindowW = {}, kStrideH = {}, kStrideW = {}, kPadH = {}, kPadW = {};\n",
      g.window_h, g.window_w, g.stride_h, g.stride_w, g.pad_h, g.pad_w);
  text += fmt::format("constexpr int kMode = {}, kUnroll = {};\n", mode, small ? kSmallTaps : 1);
  text += fmt::format("constexpr bool kSmall = {}, kPadded = {}, kWholeCount = {};\n", small,
                      g.pad_h + g.pad_w > 0, include_pad == nullptr || q.attrs.get_bool("count_include_pad"));
  return text;
}

Sizes sizes_of(const PoolGeometry& g, std::int64_t threads_per_plane) {
  constexpr std::int64_t kMost = std::int64_t{1} << 21;  // threads, unless one plane has more
  const std::int64_t planes = g.n * g.c;
  const std::int64_t group =
      std::clamp(kMost / threads_per_plane, std::int64_t{1}, std::max<std::int64_t>(planes, 1));
  return {planes, g.h, g.w, g.oh, g.ow, group};
}

Dim grid(const Sizes& s, std::int64_t threads_per_plane) {
  return {blocks_for(s.group * threads_per_plane, kThreads, 1, std::numeric_limits<std::int32_t>::max())};
}

// ---- Channels last

struct LastPlan {  // Sizes with images for planes, and packs of channels for the group
  Sizes sizes{};
  std::int64_t pack = 1;
  std::string constants;
};

// Whether every operand lies at a multiple of a pack of its elements.
bool is_aligned(const CudaArgs& a, std::int64_t pack) {
  const auto fits = [&](const Tensor& t) {
    return reinterpret_cast<std::uintptr_t>(t.raw()) %
               (static_cast<std::uintptr_t>(pack) * dtype_size(t.dtype())) ==
           0;
  };
  return std::all_of(a.inputs.begin(), a.inputs.end(), fits) &&
         std::all_of(a.outputs.begin(), a.outputs.end(), fits);
}

LastPlan plan_last(const CudaQuery& q, const PoolGeometry& g) {
  std::size_t widest = is_small(g) ? 1 : sizeof(std::int64_t) * 2;
  for (const auto list : {q.inputs, q.outputs})
    for (const TensorType& t : list) widest = std::max(widest, dtype_size(t.dtype));
  LastPlan p;
  p.pack = pack_width(widest, std::max<std::int64_t>(g.c, 1));
  p.sizes = {g.n, g.h, g.w, g.oh, g.ow, g.c / p.pack};
  const bool narrow = g.n * g.c * std::max(g.h * g.w, g.oh * g.ow) < std::int64_t{1} << 31;
  p.constants = fmt::format("constexpr int kPack = {};\ntypedef {} Flat;\n", p.pack, narrow ? "u32" : "u64");
  return p;
}

Dim grid_last(const Sizes& s, std::int64_t places) {
  return {blocks_for(s.planes * places * s.group, kThreads)};
}

// Where the maxima are put, of an op that gives them.
std::byte* places_of(const CudaArgs& a) { return a.outputs.size() > 1 ? a.out(1).raw() : kNone; }

Made make_windows_last(const CudaQuery& q, const PoolGeometry& g, const char* mode, bool picked, double eps) {
  const LastPlan p = plan_last(q, g);
  const std::string text = constants(q, g, mode, q.inputs[picked ? 2 : 0].dtype) + p.constants;
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text + kPoolWindowsLast, "pool_windows"));
  return make_kernel([f, picked, eps, sizes = p.sizes, pack = p.pack](const CudaArgs& a) -> Status {
    const Dim blocks = grid_last(sizes, sizes.oh * sizes.ow);
    if (sizes.planes * sizes.group == 0) return ok_status();
    return launch(a.stream, *f, blocks, {kThreads}, 0, a.in(0).raw(), picked ? a.in(2).raw() : kNone,
                  a.out(0).raw(), places_of(a), sizes, eps, static_cast<int>(is_aligned(a, pack)));
  });
}

// dy is the last input of floating numbers.
DType dy_dtype(const CudaQuery& q) {
  return q.inputs[q.inputs.back().dtype == DType::kU8 ? 0 : q.inputs.size() - 1].dtype;
}

// The gradient of averages, or of maxima, which are found anew or given.
enum class Of : std::uint8_t { averages, maxima, places };
Made make_spread_last(const CudaQuery& q, const PoolGeometry& g, Of of) {
  const LastPlan p = plan_last(q, g);
  const auto compiled = [&](const char* mode, const char* body, const char* name) {
    return q.device.function(constants(q, g, mode, dy_dtype(q)) + p.constants + body, name);
  };
  const Function* find = nullptr;
  if (of == Of::maxima) {
    TR_ASSIGN_OR_RETURN(find, compiled("kWhere", kPoolWindowsLast, "pool_windows"));
  }
  TR_ASSIGN_OR_RETURN(const Function* spread,
                      compiled(of == Of::averages ? "kAverage" : "kMax", kPoolSpreadLast, "pool_spread"));
  const auto windows = static_cast<std::size_t>(g.n * g.c * g.oh * g.ow);
  const auto enqueue = [of, find, spread, sizes = p.sizes, pack = p.pack](const CudaArgs& a) -> Status {
    if (sizes.planes * sizes.group == 0) return ok_status();
    const int aligned = is_aligned(a, pack);
    if (find != nullptr)
      TR_RETURN_IF_ERROR(launch(a.stream, *find, grid_last(sizes, sizes.oh * sizes.ow), {kThreads}, 0,
                                a.in(0).raw(), kNone, kNone, a.workspace, sizes, 0.0, aligned));
    return launch(a.stream, *spread, grid_last(sizes, sizes.h * sizes.w), {kThreads}, 0,
                  of == Of::places ? a.in(1).raw() : a.workspace, a.in(of == Of::maxima ? 2 : 0).raw(),
                  a.out(0).raw(), sizes, aligned);
  };
  return make_kernel(enqueue, find != nullptr ? windows * (is_small(g) ? 1 : sizeof(std::int64_t)) : 0);
}

// `picked`: the third input is read at the maxima.
Made make_windows(const CudaQuery& q, const char* mode, bool picked, double eps) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, op::detail::pool_geometry(q.inputs[0], q.attrs));
  if (q.channels_last) return make_windows_last(q, g, mode, picked, eps);
  const Sizes sizes = sizes_of(g, g.oh * g.ow);
  const DType given = q.inputs[picked ? 2 : 0].dtype;
  TR_ASSIGN_OR_RETURN(const Function* f,
                      q.device.function(constants(q, g, mode, given) + kWindows, "pool_windows"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (sizes.planes == 0) return ok_status();
    return launch(a.stream, *f, grid(sizes, sizes.oh * sizes.ow), {kThreads}, 0, a.in(0).raw(),
                  picked ? a.in(2).raw() : kNone, a.out(0).raw(), places_of(a), sizes, eps);
  });
}

struct Spread {
  const Function* f;
  Sizes sizes;
  std::int64_t per_plane;   // threads
  std::int64_t pack_bytes;  // rows of a patch are stored at once where dx is aligned to this; 0: never

  Status operator()(const CudaArgs& a, std::byte* where, std::byte* dy) const {
    std::byte* dx = a.out(0).raw();
    const int packed =
        pack_bytes > 0 && reinterpret_cast<std::uintptr_t>(dx) % static_cast<std::uintptr_t>(pack_bytes) == 0;
    return launch(a.stream, *f, grid(sizes, per_plane), {kThreads}, 0, where, dy, dx, sizes, packed);
  }
};

Result<Spread> make_spread(const CudaQuery& q, const PoolGeometry& g, const char* mode) {
  const bool patches = has_patches(g);
  const std::int64_t per_plane =
      patches ? ((g.h + g.stride_h - 1) / g.stride_h) * ((g.w + g.stride_w - 1) / g.stride_w) : g.h * g.w;
  const bool even = patches && g.w % g.stride_w == 0 && (g.stride_w == 2 || g.stride_w == 4);
  const std::string text = constants(q, g, mode, dy_dtype(q)) + kSpread;
  TR_ASSIGN_OR_RETURN(const Function* f,
                      q.device.function(text + (patches ? kSpreadPatches : kSpreadPlain), "pool_spread"));
  const auto size = static_cast<std::int64_t>(dtype_size(q.outputs[0].dtype));
  return Spread{f, sizes_of(g, per_plane), per_plane, even ? size * g.stride_w : 0};
}

}  // namespace

Made make_max_pool2d(const CudaQuery& q) { return make_windows(q, "kMax", false, 0); }
Made make_max_pool2d_places(const CudaQuery& q) { return make_windows(q, "kBoth", false, 0); }
Made make_max_pool2d_grad_grad(const CudaQuery& q) { return make_windows(q, "kPick", true, 0); }
Made make_avg_pool2d(const CudaQuery& q) { return make_windows(q, "kAverage", false, 0); }
Made make_l2_pool2d(const CudaQuery& q) { return make_windows(q, "kRoot", false, q.attrs.get_float("eps")); }

Made make_avg_pool2d_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, op::detail::pool_geometry(q.outputs[0], q.attrs));
  if (q.channels_last) return make_spread_last(q, g, Of::averages);
  TR_ASSIGN_OR_RETURN(const Spread spread, make_spread(q, g, "kAverage"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (spread.sizes.planes == 0) return ok_status();
    return spread(a, kNone, a.in(0).raw());
  });
}

Made make_max_pool2d_places_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, op::detail::pool_geometry(q.outputs[0], q.attrs));
  if (q.channels_last) return make_spread_last(q, g, Of::places);
  TR_ASSIGN_OR_RETURN(const Spread spread, make_spread(q, g, "kMax"));
  return make_kernel([=](const CudaArgs& a) -> Status {
    if (spread.sizes.planes == 0) return ok_status();
    return spread(a, a.in(1).raw(), a.in(0).raw());
  });
}

// Finds the maxima anew: y would not say which of equal elements comes first. A byte per window goes through
// the workspace.
Made make_max_pool2d_grad(const CudaQuery& q) {
  TR_ASSIGN_OR_RETURN(const PoolGeometry g, op::detail::pool_geometry(q.inputs[0], q.attrs));
  if (q.channels_last) return make_spread_last(q, g, Of::maxima);
  const Sizes sizes = sizes_of(g, g.oh * g.ow);
  TR_ASSIGN_OR_RETURN(
      const Function* find,
      q.device.function(constants(q, g, "kWhere", q.inputs[0].dtype) + kWindows, "pool_windows"));
  TR_ASSIGN_OR_RETURN(const Spread spread, make_spread(q, g, "kMax"));
  const auto windows = static_cast<std::size_t>(sizes.planes * g.oh * g.ow);
  const auto enqueue = [=](const CudaArgs& a) -> Status {
    if (sizes.planes == 0) return ok_status();
    TR_RETURN_IF_ERROR(launch(a.stream, *find, grid(sizes, sizes.oh * sizes.ow), {kThreads}, 0, a.in(0).raw(),
                              kNone, kNone, a.workspace, sizes, 0.0));
    return spread(a, a.workspace, a.in(2).raw());
  };
  return make_kernel(enqueue, windows * (is_small(g) ? 1 : sizeof(std::int64_t)));
}

}  // namespace trireme::kernel::cuda
