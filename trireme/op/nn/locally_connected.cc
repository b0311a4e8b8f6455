#include "trireme/op/nn/locally_connected.h"

namespace trireme::op::detail {

Result<ConvGeometry> local_geometry(const TensorType& x, const TensorType& filter, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", x));
  TR_RETURN_IF_ERROR(expect_rank("filter", filter, 6));
  const TensorType one{filter.dtype, {filter.shape[2], filter.shape[3], filter.shape[4], filter.shape[5]}};
  TR_ASSIGN_OR_RETURN(const ConvGeometry g, conv_geometry(x, one, attrs));
  if (filter.shape[0] != g.oh || filter.shape[1] != g.ow) {
    return error(Code::kInvalid, "filter: got {} x {} positions, expected one for each of {} x {} outputs",
                 filter.shape[0], filter.shape[1], g.oh, g.ow);
  }
  return g;
}

std::vector<AttrSpec> local_attrs(std::string_view shape_attr) {
  std::vector<AttrSpec> specs = window_attrs();
  if (!shape_attr.empty()) specs.push_back(result_shape_attr(shape_attr));
  return specs;
}

}  // namespace trireme::op::detail
