// Windows that slide along a dimension which is cut over positions: which indices of the one side a part of
// the other needs. Shared by convolutions, pooling and norms over neighbourhoods.
//
// Window o of `out` covers the inputs [o stride - pad, o stride - pad + span). Both sides are cut in even
// parts. A position asks for what its part needs, padding as explicit elements, so that its op runs without
// padding along the dimension. All positions add the same nodes; sizes alone tell them apart.
#pragma once

#include "trireme/op/detail/cut_graph.h"

namespace trireme::op::detail {

struct Sliding {
  std::int64_t in, out, span, stride, pad;
};

// Indices [begins[p], ends[p]) of a dimension for every position p; they may lie outside of it.
struct Ranges {
  std::vector<std::int64_t> begins, ends;
  std::int64_t size(int p) const { return ends[idx(p)] - begins[idx(p)]; }
  friend bool operator==(const Ranges&, const Ranges&) = default;
};
Ranges even_parts(std::int64_t size, int num_parts);
// The parts with `before` more elements before and `after` more behind them.
Ranges widened(Ranges parts, std::int64_t before, std::int64_t after);
// Inputs that windows cover.
Ranges inputs_of(const Sliding& s, const Ranges& windows);
// Windows that together cover the inputs and are all that hold any of them.
Ranges windows_over(const Sliding& s, const Ranges& inputs);

// CutBuilder::window, or the part itself where that is what every position asks for.
Value window_of(CutBuilder& b, Value part, int dim, std::int64_t size, const Ranges& ranges, double fill);
// `inner` of a value that has the indices `outer` of a dimension.
Value crop(CutBuilder& b, Value v, int dim, const Ranges& outer, const Ranges& inner);

// Whether add_overlaps() takes such ranges: one behind the other they are cut in even parts.
bool can_overlap(const Ranges& overlapping);
// Position p has summands for the indices overlapping[p] of a dimension, which others have too. Their sum, of
// which each position gets its part `parts[p]`; indices outside of all parts are dropped.
Value add_overlaps(CutBuilder& b, Value v, int dim, const Ranges& overlapping, const Ranges& parts);

// What `def`, which keeps the shape of its input, makes of elements and their neighbors: `before` and `after`
// of them along a dimension of `v` that is cut like output 0. Outside there are zeros.
Value with_neighbors(CutBuilder& b, const OpDef& def, Value v, int dim, std::int64_t before,
                     std::int64_t after, const Attrs& attrs);

// Per dimension 2 (height) or 3 (width) of an image: the names of an attribute.
inline std::string of_side(std::string_view name, int dim) {
  return std::string(name) + (dim == 2 ? "_h" : "_w");
}
// Sides 2 and 3 of images, alike in all operands, rewritten.
std::vector<LayoutOption> with_sides(std::vector<LayoutOption> options, std::size_t num_inputs);

}  // namespace trireme::op::detail
