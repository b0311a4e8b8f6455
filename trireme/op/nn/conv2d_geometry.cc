#include "trireme/op/nn/conv2d.h"

namespace trireme::op::detail {
namespace {
constexpr std::string_view kNames[] = {"stride_h",   "stride_w",   "pad_h", "pad_w",
                                       "dilation_h", "dilation_w", "groups"};

// Positions of a window of `k` taps along one side.
Result<std::int64_t> out_size(std::string_view side, std::int64_t in, std::int64_t k, std::int64_t stride,
                              std::int64_t pad, std::int64_t dilation) {
  const std::int64_t room = in + 2 * pad - (dilation * (k - 1) + 1);
  if (room < 0) {
    return error(Code::kInvalid,
                 "filter {}: got {} taps with dilation {}, expected to fit into {} with padding {}", side, k,
                 dilation, in, pad);
  }
  return room / stride + 1;
}
}  // namespace

std::vector<AttrSpec> conv_attrs(std::string_view shape_attr) {
  std::vector<AttrSpec> specs = {{"stride_h", std::int64_t{1}, "rows between outputs"},
                                 {"stride_w", std::int64_t{1}, "columns between outputs"},
                                 {"pad_h", std::int64_t{0}, "rows of zeros above and below"},
                                 {"pad_w", std::int64_t{0}, "columns of zeros left and right"},
                                 {"dilation_h", std::int64_t{1}, "rows between taps"},
                                 {"dilation_w", std::int64_t{1}, "columns between taps"},
                                 {"groups", std::int64_t{1}, "independent groups of channels"}};
  if (!shape_attr.empty())
    specs.push_back({shape_attr, std::vector<std::int64_t>{}, "shape of the result", true});
  return specs;
}

Attrs conv_attrs_of(const Attrs& attrs) {
  Attrs shared;
  for (const std::string_view name : kNames) shared.set(std::string(name), attrs.get_int(name));
  return shared;
}

Result<ConvGeometry> conv_geometry(const TensorType& x, const TensorType& filter, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", x));
  TR_RETURN_IF_ERROR(expect_rank("x", x, 4));
  TR_RETURN_IF_ERROR(expect_rank("filter", filter, 4));
  TR_RETURN_IF_ERROR(expect_dtype("filter", filter, x.dtype));
  for (const std::string_view name : kNames) {
    TR_RETURN_IF_ERROR(expect_at_least(name, attrs.get_int(name), name.starts_with("pad") ? 0 : 1));
  }
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
  if (g.c != g.cg * g.groups) {
    return error(Code::kInvalid,
                 "channels: got {} in x {} and {} per group in filter {}, expected {} times {} groups", g.c,
                 x.to_string(), g.cg, filter.to_string(), g.cg, g.groups);
  }
  if (g.o % g.groups != 0) {
    return error(Code::kInvalid, "filter: got {} output channels, expected a multiple of {} groups", g.o,
                 g.groups);
  }
  TR_ASSIGN_OR_RETURN(g.oh, out_size("height", g.h, g.kh, g.stride_h, g.pad_h, g.dilation_h));
  TR_ASSIGN_OR_RETURN(g.ow, out_size("width", g.w, g.kw, g.stride_w, g.pad_w, g.dilation_w));
  return g;
}

}  // namespace trireme::op::detail
