#include "trireme/op/nn/max_pool2d.h"

namespace trireme::op::detail {
namespace {
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
}  // namespace

std::vector<AttrSpec> pool_attrs() {
  return {{"window_h", std::int64_t{1}, "rows of a window", true},
          {"window_w", std::int64_t{1}, "columns of a window", true},
          {"stride_h", std::int64_t{1}, "rows between windows", true},
          {"stride_w", std::int64_t{1}, "columns between windows", true},
          {"pad_h", std::int64_t{0}, "rows of padding above and below"},
          {"pad_w", std::int64_t{0}, "columns of padding left and right"}};
}

Result<PoolGeometry> pool_geometry(const TensorType& x, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", x));
  TR_RETURN_IF_ERROR(expect_rank("x", x, 4));
  for (const AttrSpec& spec : pool_attrs()) {
    TR_RETURN_IF_ERROR(
        expect_at_least(spec.name, attrs.get_int(spec.name), spec.name.starts_with("pad") ? 0 : 1));
  }
  PoolGeometry g{};
  g.n = x.shape[0], g.c = x.shape[1], g.h = x.shape[2], g.w = x.shape[3];
  g.window_h = attrs.get_int("window_h"), g.window_w = attrs.get_int("window_w");
  g.stride_h = attrs.get_int("stride_h"), g.stride_w = attrs.get_int("stride_w");
  g.pad_h = attrs.get_int("pad_h"), g.pad_w = attrs.get_int("pad_w");
  TR_ASSIGN_OR_RETURN(g.oh, out_size("height", g.h, g.window_h, g.stride_h, g.pad_h));
  TR_ASSIGN_OR_RETURN(g.ow, out_size("width", g.w, g.window_w, g.stride_w, g.pad_w));
  return g;
}

std::vector<LayoutOption> pool_layout(TypeSpan in, const Attrs&) {
  return {{std::vector<int>(in.size(), 0), {0}}, {std::vector<int>(in.size(), 1), {1}}};
}

// One comparison per element of every window.
cost::OpCost pool_cost(const TensorType& x, const Attrs& attrs, double bytes) {
  const PoolGeometry g = *pool_geometry(x, attrs);
  return {
      .flops = static_cast<double>(g.n * g.c * g.oh * g.ow) * static_cast<double>(g.window_h * g.window_w),
      .bytes = bytes};
}

}  // namespace trireme::op::detail
