// What the attributes of slice mean for a shape.
#include <algorithm>
#include <limits>

#include "trireme/op/array/array.h"

namespace trireme::op::detail {

std::vector<AttrSpec> slice_attrs() {
  return {{"begin", Ints{}, "first index per dimension; negative ones count from the end", true},
          {"end", Ints{}, "index after the last per dimension; 0 and below count from the end", true},
          {"step", Ints{}, "distance of elements per dimension, at least 1; empty: all 1"}};
}

// Beyond a dimension is clipped, as in Python.
Result<std::vector<SliceDim>> resolve_slice(const TensorType& x, const Attrs& attrs) {
  const Ints &begins = attrs.get_ints("begin"), &ends = attrs.get_ints("end");
  Ints steps = attrs.get_ints("step");
  if (steps.empty()) steps.assign(idx(x.shape.rank()), 1);
  TR_RETURN_IF_ERROR(expect_per_dim("begin", begins, x));
  TR_RETURN_IF_ERROR(expect_per_dim("end", ends, x));
  TR_RETURN_IF_ERROR(expect_per_dim("step", steps, x));
  std::vector<SliceDim> dims;
  for (int d = 0; d < x.shape.rank(); ++d) {
    const std::int64_t size = x.shape[d], step = steps[idx(d)];
    TR_RETURN_IF_ERROR(expect_at_least("step", step, 1));
    const auto clipped = [size](std::int64_t at, bool from_end) {
      if (!from_end) return std::min(at, size);
      return at <= -size ? std::int64_t{0} : size + at;
    };
    const std::int64_t begin = clipped(begins[idx(d)], begins[idx(d)] < 0);
    const std::int64_t end = clipped(ends[idx(d)], ends[idx(d)] <= 0);
    const std::int64_t taken = end > begin ? (end - begin - 1) / step + 1 : 0;
    dims.push_back({begin, step, taken, begins[idx(d)] == 0 && ends[idx(d)] == 0 && step == 1});
  }
  return dims;
}

int blocks_of_slice(const SliceDim& taken, std::int64_t size) {
  if (taken.step != 1 || taken.size == 0 || size % taken.size != 0 || taken.begin % taken.size != 0) return 0;
  const std::int64_t blocks = size / taken.size;
  return blocks <= std::numeric_limits<int>::max() ? static_cast<int>(blocks) : 0;
}

Attrs slice_of_block(const Attrs& attrs, const SliceDim& taken, int d, int blocks, std::int64_t own) {
  Ints begin = attrs.get_ints("begin"), end = attrs.get_ints("end");
  begin[idx(d)] = taken.begin / taken.size * (own / blocks);
  end[idx(d)] = begin[idx(d)] + own / blocks;
  return {{"begin", begin}, {"end", end}, {"step", attrs.get_ints("step")}};
}

}  // namespace trireme::op::detail
