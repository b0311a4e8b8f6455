#include "trireme/op/nn/pool2d.h"

#include <limits>

namespace trireme::op::detail {
namespace {
constexpr std::int64_t kMaxAttr = std::numeric_limits<std::int32_t>::max();

Result<std::int64_t> out_size(std::string_view side, std::int64_t in, std::int64_t window,
                              std::int64_t stride, std::int64_t pad) {
  if (2 * pad > window) {  // otherwise a window could hold nothing but padding
    return error(Code::kInvalid, "{}: got padding {} for a window of {}, expected at most half the window",
                 side, pad, window);
  }
  const std::int64_t room = in + 2 * pad - window;
  if (in == 0 || room < 0) {
    return error(Code::kInvalid, "{}: got a window of {}, expected to fit into {} with padding {}", side,
                 window, in, pad);
  }
  return room / stride + 1;
}

double side_taps(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t stride,
                 std::int64_t pad) {
  double total = 0;
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t at = i * stride - pad;
    total += static_cast<double>(std::min(at + window, in) - std::max<std::int64_t>(at, 0));
  }
  return total;
}
}  // namespace

double PoolGeometry::taps() const {
  return static_cast<double>(n * c) * side_taps(h, oh, window_h, stride_h, pad_h) *
         side_taps(w, ow, window_w, stride_w, pad_w);
}

double PoolGeometry::window_depth() const {
  return log_depth(static_cast<double>(std::min(window_h, h)) * static_cast<double>(std::min(window_w, w)));
}

std::vector<AttrSpec> pool_attrs() {
  return {{"window_h", std::int64_t{1}, "rows of a window", true},
          {"window_w", std::int64_t{1}, "columns of a window", true},
          {"stride_h", std::int64_t{1}, "rows between windows", true},
          {"stride_w", std::int64_t{1}, "columns between windows", true},
          {"pad_h", std::int64_t{0}, "rows of padding above and below"},
          {"pad_w", std::int64_t{0}, "columns of padding left and right"}};
}

Attrs pool_attrs_of(const Attrs& attrs) {
  Attrs shared;
  for (const AttrSpec& spec : pool_attrs()) shared.set(std::string(spec.name), attrs.get_int(spec.name));
  return shared;
}

Result<PoolGeometry> pool_geometry(const TensorType& x, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", x));
  TR_RETURN_IF_ERROR(expect_rank("x", x, 4));
  for (const AttrSpec& spec : pool_attrs()) {
    const std::int64_t v = attrs.get_int(spec.name);
    TR_RETURN_IF_ERROR(expect_at_least(spec.name, v, spec.name.starts_with("pad") ? 0 : 1));
    if (v > kMaxAttr)
      return error(Code::kInvalid, "attribute '{}': got {}, expected at most {}", spec.name, v, kMaxAttr);
  }
  PoolGeometry g{};
  g.n = x.shape[0], g.c = x.shape[1], g.h = x.shape[2], g.w = x.shape[3];
  g.window_h = attrs.get_int("window_h"), g.window_w = attrs.get_int("window_w");
  g.stride_h = attrs.get_int("stride_h"), g.stride_w = attrs.get_int("stride_w");
  g.pad_h = attrs.get_int("pad_h"), g.pad_w = attrs.get_int("pad_w");
  TR_ASSIGN_OR_RETURN(g.oh, out_size("height", g.h, g.window_h, g.stride_h, g.pad_h));
  TR_ASSIGN_OR_RETURN(g.ow, out_size("width", g.w, g.window_w, g.stride_w, g.pad_w));
  const auto y = Shape::checked(std::array{g.n, g.c, g.oh, g.ow});
  if (!y.ok()) return y.status().with_prefix("y: ");
  return g;
}

std::vector<LayoutOption> pool_layout(TypeSpan in, const Attrs&) {
  return {{std::vector<AxisCut>(in.size(), 0), {0}}, {std::vector<AxisCut>(in.size(), 1), {1}}};
}

std::vector<LayoutOption> pool_sides_layout(TypeSpan in, const Attrs& attrs) {
  return with_sides(pool_layout(in, attrs), in.size());
}

Sliding sliding(const PoolGeometry& g, int dim) {
  if (dim == 2) return {g.h, g.oh, g.window_h, g.stride_h, g.pad_h};
  return {g.w, g.ow, g.window_w, g.stride_w, g.pad_w};
}

Attrs unpadded_pool(Attrs attrs, int dim) {
  attrs.set(of_side("pad", dim), std::int64_t{0});
  return attrs;
}

Value seen_by_windows(CutBuilder& b, Value x, const PoolGeometry& g, int dim, double fill) {
  const Sliding s = sliding(g, dim);
  return window_of(b, x, dim, s.in, inputs_of(s, even_parts(s.out, b.num_parts())), fill);
}

cost::OpCost pool_cost(const PoolGeometry& g, double per_tap, double per_window, double bytes) {
  const double windows = static_cast<double>(g.out_shape().num_elems());
  const double flops = per_tap * g.taps() + per_window * windows;
  return {.flops = flops,
          .bytes = bytes,
          .work = flops,
          .depth = windows > 0 ? g.window_depth() + (per_window > 0 ? 1 : 0) : 0};
}

}  // namespace trireme::op::detail
