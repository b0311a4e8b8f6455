// Rules for convolutions and locally connected layers of which a side of the images, or groups, are cut.
#pragma once

#include "trireme/op/nn/conv2d.h"
#include "trireme/op/nn/cut_windows.h"

namespace trireme::op::detail {

Sliding sliding(const ConvGeometry& g, int dim);
// Attributes of another node, less a shape: without padding along a side; with `channels` of x.
Attrs unpadded(const Attrs& attrs, int dim);
Attrs with_groups_of(const Attrs& attrs, const ConvGeometry& whole, std::int64_t channels);
// A cut between groups along dimension `dim`, of which a group has `unit` indices; rewritten.
LayoutOption group_option(std::vector<AxisCut> inputs, AxisCut output);

// The rows or columns of x [N,C,H,W] that this position's outputs see.
Value seen_inputs(CutBuilder& b, Value x, const ConvGeometry& g, int dim);

// How positions make their parts of an input of windows from the windows over it: of `windows`, with padding
// `pad`, which gives `inputs`, of which each takes its part.
struct Backwards {
  Ranges windows, inputs;
  std::int64_t pad;
};
Backwards backwards(const Sliding& s, int num_parts);
// dx from the windows that `how` names: `filter` and `dy` are those.
Value cut_input_grad(CutBuilder& b, const OpDef& def, Value filter, Value dy, const Backwards& how, int dim);

}  // namespace trireme::op::detail
