// Locally connected layers: convolution with a filter of its own at every output position.
//
// y[n][o][oh][ow] = sum over c, kh, kw of filter[oh][ow][o][c][kh][kw] * x[n][c0 + c][ih][iw], indices as in
// conv2d.h. Used by the large networks of Le et al., "Building High-level Features Using Large Scale
// Unsupervised Learning" (2012), and Dean et al., "Large Scale Distributed Deep Networks" (2012).
#pragma once

#include "trireme/op/nn/conv2d.h"

namespace trireme::op::detail {

// x [N,C,H,W], filter [OH,OW,O,C/groups,KH,KW].
Result<ConvGeometry> local_geometry(const TensorType& x, const TensorType& filter, const Attrs& attrs);
std::vector<AttrSpec> local_attrs(std::string_view shape_attr);
inline FilterStrides local_filter(const Tensor& f) {
  const auto& s = f.strides();
  return {s[0], s[1], s[2], s[3], s[4], s[5]};
}

}  // namespace trireme::op::detail
