// Pooling over windows of x [N,C,H,W], also with the channels last in memory, and its gradients: every
// element of a result is one thread's sum in the order of the reference kernels. Windows, strides and padding
// are constants of the text, so that the taps of small windows are loaded side by side.
#include "trireme/kernel/cuda/device/device.h"
#include "trireme/kernel/cuda/norm/reduce_text.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/fused/max_pool2d_places.h"

namespace trireme::kernel::cuda {

// Texts of pool*.cu.
extern const char kPoolModesText[], kPoolWindowsText[], kPoolShareText[], kPoolPatchesText[],
    kPoolSpreadText[], kPoolWindowsLastText[], kPoolSpreadLastText[];

namespace {

using op::detail::PoolGeometry;

struct Sizes {  // as the texts have it
  std::int64_t planes, h, w, oh, ow;
  std::int64_t group;  // planes that the threads of the grid take at once
};

constexpr std::int64_t kSmallTaps = op::detail::kMostPlaces, kThreads = 256;
constexpr std::byte* kNone = nullptr;

bool is_small(const PoolGeometry& g) { return op::detail::has_places(g); }
// A patch of dx lies below few windows: the text that unrolls them stays short.
bool has_patches(const PoolGeometry& g) { return is_small(g) && g.stride_h <= 4 && g.stride_w <= 4; }

// `given`: dtype of the operand that goes with windows or images. Operands may differ in dtype
// (CudaQuery::casts).
std::string constants(const CudaQuery& q, const PoolGeometry& g, const char* mode, DType given) {
  constexpr std::int64_t kHalf = std::int64_t{1} << 30;  // sums of two sizes stay below 2^31
  const bool narrow = g.h * g.w < kHalf && g.oh * g.ow < kHalf && g.h + g.pad_h < kHalf &&
                      g.w + g.pad_w < kHalf && g.window_h < kHalf && g.window_w < kHalf &&
                      g.stride_h < kHalf && g.stride_w < kHalf;
  const bool small = is_small(g);
  const auto* include_pad = q.attrs.find("count_include_pad");
  std::string text = kPoolModesText;
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
  TR_ASSIGN_OR_RETURN(const Function* f, q.device.function(text + kPoolWindowsLastText, "pool_windows"));
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
    TR_ASSIGN_OR_RETURN(find, compiled("kWhere", kPoolWindowsLastText, "pool_windows"));
  }
  TR_ASSIGN_OR_RETURN(const Function* spread,
                      compiled(of == Of::averages ? "kAverage" : "kMax", kPoolSpreadLastText, "pool_spread"));
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
                      q.device.function(constants(q, g, mode, given) + kPoolWindowsText, "pool_windows"));
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
  const std::string text = constants(q, g, mode, dy_dtype(q)) + kPoolShareText;
  TR_ASSIGN_OR_RETURN(const Function* f,
                      patches ? q.device.function(text + kPoolPatchesText, "pool_spread_patches")
                              : q.device.function(text + kPoolSpreadText, "pool_spread"));
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
      q.device.function(constants(q, g, "kWhere", q.inputs[0].dtype) + kPoolWindowsText, "pool_windows"));
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
