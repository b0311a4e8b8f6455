#include "trireme/parallel/shard/axis_cut.h"

namespace trireme::parallel {

using op::AxisCut;

bool fits(const AxisCut& cut, const Shape& whole, int num_parts) {
  if (!cut.cuts()) return true;
  if (cut.dim >= whole.rank()) return false;
  const std::int64_t size = whole[cut.dim], step = cut.blocks * cut.unit;
  return step > 0 && size % step == 0 && size / step >= num_parts;
}

AxisCut shortest(const AxisCut& cut, const Shape& whole, int num_parts) {
  if (!cut.cuts() || cut.unit == 1) return cut;
  const std::int64_t units = whole[cut.dim] / (cut.blocks * cut.unit);
  return units % num_parts == 0 ? AxisCut(cut.dim, cut.blocks) : cut;
}

Shape part_shape(const AxisCut& cut, const Shape& whole, int num_parts, int position) {
  Shape part = whole;
  if (cut.cuts())
    part.set(cut.dim, op::part_sizes(cut, whole[cut.dim], num_parts)[static_cast<std::size_t>(position)]);
  return part;
}

TensorType part_type(const AxisCut& cut, const TensorType& whole, int num_parts, int position) {
  return {whole.dtype, part_shape(cut, whole.shape, num_parts, position)};
}

}  // namespace trireme::parallel
