#include "trireme/op/nn/conv_cut.h"

#include <algorithm>

namespace trireme::op::detail {

Sliding sliding(const ConvGeometry& g, int dim) {
  if (dim == 2) return {g.h, g.oh, (g.kh - 1) * g.dilation_h + 1, g.stride_h, g.pad_h};
  return {g.w, g.ow, (g.kw - 1) * g.dilation_w + 1, g.stride_w, g.pad_w};
}

Attrs unpadded(const Attrs& attrs, int dim) {
  Attrs own = conv_attrs_of(attrs);
  own.set(of_side("pad", dim), std::int64_t{0});
  return own;
}

Attrs with_groups_of(const Attrs& attrs, const ConvGeometry& whole, std::int64_t channels) {
  Attrs own = conv_attrs_of(attrs);
  own.set("groups", channels / whole.cg);
  return own;
}

LayoutOption group_option(std::vector<AxisCut> inputs, AxisCut output) {
  return {.inputs = std::move(inputs), .outputs = {output}, .rewritten = true, .any_indices = true};
}

Value seen_inputs(CutBuilder& b, Value x, const ConvGeometry& g, int dim) {
  const Sliding s = sliding(g, dim);
  return window_of(b, x, dim, s.in, inputs_of(s, even_parts(s.out, b.num_parts())), 0);
}

// With padding P the op leaves off P inputs before and behind, and up to stride - 1 fewer behind: that gives
// just the part where windows begin P before it at every position. Else it runs without padding.
Backwards backwards(const Sliding& s, int num_parts) {
  const Ranges parts = even_parts(s.in, num_parts);
  Backwards how{windows_over(s, parts), {}, 0};
  how.inputs = inputs_of(s, how.windows);
  const std::int64_t phase = (parts.begins[0] + s.pad) % s.stride;
  std::int64_t least = 0;
  for (std::size_t p = 0; p < parts.begins.size(); ++p) {
    if ((parts.begins[p] + s.pad) % s.stride != phase) return how;
    least = std::max({least, parts.begins[p] - how.inputs.begins[p], how.inputs.ends[p] - parts.ends[p]});
  }
  how.pad = phase + (std::max<std::int64_t>(least - phase, 0) + s.stride - 1) / s.stride * s.stride;
  for (std::size_t p = 0; p < parts.begins.size(); ++p) {
    const std::int64_t size = parts.ends[p] - parts.begins[p];
    how.windows.begins[p] = (parts.begins[p] + s.pad - how.pad) / s.stride;
    how.windows.ends[p] = how.windows.begins[p] + (size + 2 * how.pad - s.span) / s.stride + 1;
  }
  how.inputs = parts;
  return how;
}

Value cut_input_grad(CutBuilder& b, const OpDef& def, Value filter, Value dy, const Backwards& how, int dim) {
  Shape shape = b.whole_output(0).shape;
  const Ranges parts = even_parts(shape[dim], b.num_parts());
  shape.set(dim, how.inputs.size(b.position()));
  Attrs attrs = conv_attrs_of(b.attrs());
  attrs.set(of_side("pad", dim), how.pad);
  attrs.set("input_shape", dims_of(shape));
  return crop(b, b.add(def, {filter, dy}, std::move(attrs)), dim, how.inputs, parts);
}

}  // namespace trireme::op::detail
