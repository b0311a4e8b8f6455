#include <limits>

#include "trireme/op/nn/conv2d.h"
#include "trireme/op/nn/conv_work.h"

namespace trireme::op::detail {
namespace {
constexpr std::string_view kNames[] = {"stride_h",   "stride_w",   "pad_h", "pad_w",
                                       "dilation_h", "dilation_w", "groups"};
constexpr std::int64_t kMaxAttr = std::numeric_limits<std::int32_t>::max();

// Positions of a window of `k` taps along one side.
Result<std::int64_t> out_size(std::string_view side, std::int64_t in, std::int64_t k, std::int64_t stride,
                              std::int64_t pad, std::int64_t dilation) {
  const auto span = span_of(k, dilation);
  if (!span || *span > in + 2 * pad) {
    return error(Code::kInvalid,
                 "filter {}: got {} taps with dilation {}, expected to fit into {} with padding {}", side, k,
                 dilation, in, pad);
  }
  return (in + 2 * pad - *span) / stride + 1;
}

// Pairs of an output position and a tap inside the image, along one side.
double pairs(std::int64_t in, std::int64_t out, std::int64_t k, std::int64_t stride, std::int64_t pad,
             std::int64_t dilation) {
  double total = 0;
  for (std::int64_t tap = 0; tap < k; ++tap) {
    const Inside at = inside(tap * dilation - pad, stride, in, out);
    total += static_cast<double>(at.end - at.begin);
  }
  return total;
}

bool takes_winograd(const ConvGeometry& g) {
  return (g.kh == 3 || g.kh == 5) && g.kw == g.kh && g.stride_h == 1 && g.stride_w == 1 &&
         g.dilation_h == 1 && g.dilation_w == 1 && g.groups == 1 && g.pad_h < g.kh && g.pad_w < g.kw;
}

}  // namespace

Status expect_window(const Attrs& attrs) {
  for (const std::string_view name : kNames) {
    const std::int64_t v = attrs.get_int(name);
    TR_RETURN_IF_ERROR(expect_at_least(name, v, name.starts_with("pad") ? 0 : 1));
    if (v > kMaxAttr)
      return error(Code::kInvalid, "attribute '{}': got {}, expected at most {}", name, v, kMaxAttr);
  }
  if (attrs.find("method") != nullptr) return conv_method(attrs.get_text("method")).status();
  return ok_status();
}

std::optional<std::int64_t> span_of(std::int64_t positions, std::int64_t step) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 61;
  if (positions < 1 || positions - 1 > (kLargest - 1) / step) return std::nullopt;
  return (positions - 1) * step + 1;
}

double ConvGeometry::flops() const {
  return 2 * static_cast<double>(n * o) * static_cast<double>(cg) *
         pairs(h, oh, kh, stride_h, pad_h, dilation_h) * pairs(w, ow, kw, stride_w, pad_w, dilation_w);
}

std::vector<AttrSpec> window_attrs() {
  return {{"stride_h", std::int64_t{1}, "rows between outputs"},
          {"stride_w", std::int64_t{1}, "columns between outputs"},
          {"pad_h", std::int64_t{0}, "rows of zeros above and below"},
          {"pad_w", std::int64_t{0}, "columns of zeros left and right"},
          {"dilation_h", std::int64_t{1}, "rows between taps"},
          {"dilation_w", std::int64_t{1}, "columns between taps"},
          {"groups", std::int64_t{1}, "independent groups of channels"}};
}

AttrSpec result_shape_attr(std::string_view name) {
  return {name, std::vector<std::int64_t>{}, "shape of the result", true};
}

std::vector<AttrSpec> conv_attrs(std::string_view shape_attr) {
  std::vector<AttrSpec> specs = window_attrs();
  specs.push_back(
      {"method", std::string("auto"), "how it is computed: auto, direct, im2col or winograd (3x3, 5x5)"});
  if (!shape_attr.empty()) specs.push_back(result_shape_attr(shape_attr));
  return specs;
}

Attrs conv_attrs_of(const Attrs& attrs) {
  Attrs shared;
  for (const std::string_view name : kNames) shared.set(std::string(name), attrs.get_int(name));
  if (attrs.find("method") != nullptr) shared.set("method", attrs.get_text("method"));
  return shared;
}

Result<ConvGeometry> conv_geometry(const TensorType& x, const TensorType& filter, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", x));
  TR_RETURN_IF_ERROR(expect_rank("x", x, 4));
  TR_RETURN_IF_ERROR(expect_rank("filter", filter, 4));
  TR_RETURN_IF_ERROR(expect_dtype("filter", filter, x.dtype));
  TR_RETURN_IF_ERROR(expect_window(attrs));
  ConvGeometry g{};
  g.n = x.shape[0], g.c = x.shape[1], g.h = x.shape[2], g.w = x.shape[3];
  g.o = filter.shape[0], g.cg = filter.shape[1], g.kh = filter.shape[2], g.kw = filter.shape[3];
  g.stride_h = attrs.get_int("stride_h"), g.stride_w = attrs.get_int("stride_w");
  g.pad_h = attrs.get_int("pad_h"), g.pad_w = attrs.get_int("pad_w");
  g.dilation_h = attrs.get_int("dilation_h"), g.dilation_w = attrs.get_int("dilation_w");
  g.groups = attrs.get_int("groups");
  if (g.kh < 1 || g.kw < 1) {
    return error(Code::kInvalid, "filter: got {}, expected at least one tap per side", filter.to_string());
  }
  if (g.c % g.groups != 0 || g.c / g.groups != g.cg) {
    return error(Code::kInvalid,
                 "channels: got {} in x {} and {} per group in filter {}, expected {} times {} groups", g.c,
                 x.to_string(), g.cg, filter.to_string(), g.cg, g.groups);
  }
  if (g.o % g.groups != 0) {
    return error(Code::kInvalid, "filter: got {} output channels, expected a multiple of {} groups", g.o,
                 g.groups);
  }
  if (attrs.find("method") != nullptr && attrs.get_text("method") == "winograd" && !takes_winograd(g)) {
    return error(
        Code::kInvalid,
        "attribute 'method': got 'winograd' for filter {}, expected 3x3 or 5x5 with stride 1, dilation "
        "1, one group and padding below the filter's side; use auto",
        filter.to_string());
  }
  TR_ASSIGN_OR_RETURN(g.oh, out_size("height", g.h, g.kh, g.stride_h, g.pad_h, g.dilation_h));
  TR_ASSIGN_OR_RETURN(g.ow, out_size("width", g.w, g.kw, g.stride_w, g.pad_w, g.dilation_w));
  const auto y = Shape::checked(std::array{g.n, g.o, g.oh, g.ow});
  if (!y.ok()) return y.status().with_prefix("y: ");
  return g;
}

Grads conv_grads(GradBuilder& g, const OpDef& input_grad, const OpDef& filter_grad) {
  const Value x = g.input(0), filter = g.input(1), dy = g.grad_output(0);
  Grads grads(2);
  if (g.needs_grad(0)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("input_shape", dims_of(g.type(x).shape));
    grads[0] = g.add(input_grad, {filter, dy}, std::move(attrs));
  }
  if (g.needs_grad(1)) {
    Attrs attrs = conv_attrs_of(g.attrs());
    attrs.set("filter_shape", dims_of(g.type(filter).shape));
    grads[1] = g.add(filter_grad, {x, dy}, std::move(attrs));
  }
  return grads;
}

}  // namespace trireme::op::detail
