// The part of a tensor that belongs to a position of an axis: what is whole everywhere becomes cut, without
// communication.
#include <fmt/format.h>
#include <algorithm>
#include <numeric>

#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

// Sizes of all parts of dimension `dim` of x.
Result<Ints> sizes_of(const TensorType& x, int dim, const Attrs& attrs) {
  const std::int64_t parts = attrs.get_int("parts"), all = x.shape[dim];
  TR_RETURN_IF_ERROR(expect_at_least("parts", parts, 1));
  Ints sizes = attrs.get_ints("sizes");
  if (sizes.empty()) {
    if (all % parts != 0)
      return error(Code::kInvalid, "x: got {}, expected dimension {} to be a multiple of {} parts",
                   x.to_string(), dim, parts);
    return Ints(idx(parts), all / parts);
  }
  if (static_cast<std::int64_t>(sizes.size()) != parts)
    return error(Code::kInvalid, "attribute 'sizes': got {} sizes, expected one for each of {} parts",
                 sizes.size(), parts);
  std::int64_t total = 0;
  for (const std::int64_t size : sizes)
    if (size < 0 || __builtin_add_overflow(total, size, &total)) total = -1;
  if (total != all)
    return error(Code::kInvalid,
                 "attribute 'sizes': got {}, expected sizes that add up to dimension {} of {}",
                 fmt::join(sizes, ", "), dim, x.to_string());
  return sizes;
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const int dim, resolve_axis("dim", attrs.get_int("dim"), in[0]));
  TR_RETURN_IF_ERROR(expect_type("position", in[1], {DType::kI64, {}}));
  TR_ASSIGN_OR_RETURN(const Ints sizes, sizes_of(in[0], dim, attrs));
  std::int64_t own = attrs.get_int("extent");
  if (attrs.get_ints("sizes").empty()) {
    if (own != -1)
      return error(Code::kInvalid, "attribute 'extent': got {}, expected -1 where there are no sizes", own);
    own = sizes[0];
  } else if (std::find(sizes.begin(), sizes.end(), own) == sizes.end()) {
    return error(Code::kInvalid, "attribute 'extent': got {}, expected one of the sizes {}", own,
                 fmt::join(sizes, ", "));
  }
  TensorType out = in[0];
  out.shape.set(dim, own);
  return std::vector{out};
}

// Zeros where the position has no such index: it is none, or its part is not as long as `extent` says.
void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  const int dim = *resolve_axis("dim", a.attrs.get_int("dim"), x.type());
  const Ints sizes = *sizes_of(x.type(), dim, a.attrs);
  const std::int64_t position = a.in(1).data<std::int64_t>()[0];
  const bool inside = position >= 0 && position < static_cast<std::int64_t>(sizes.size());
  const std::int64_t extent = y.shape()[dim], own = inside ? std::min(sizes[idx(position)], extent) : 0;
  if (own < extent) fill_zeros(y);
  if (own == 0) return;
  const std::int64_t begin = std::accumulate(sizes.begin(), sizes.begin() + position, std::int64_t{0});
  Shape part = y.shape();
  part.set(dim, own);
  copy_elements(x.dtype(), part, address(x, begin * x.strides()[idx(dim)]), x.strides(), y.raw(),
                y.strides());
}

// Any dimension but the one that is cut here.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto dim = resolve_axis("dim", attrs.get_int("dim"), in[0]);
  std::vector<LayoutOption> options;
  for (int d = 0; dim.ok() && d < in[0].shape.rank(); ++d)
    if (d != *dim) options.push_back({{d, kReplicate}, {d}});
  return options;
}
}  // namespace

const OpDef kTakePart{
    .name = "take_part",
    .doc =
        "The part of x along dimension `dim` that belongs to `position` (i64 scalar): of `parts` equal ones, "
        "or of `sizes`. Has no gradient: graphs are cut after gradients are added.",
    .family = "array",
    .num_inputs = 2,
    .attrs = {{"dim", std::int64_t{0}, "dimension that is cut; negative ones count from the end"},
              {"parts", std::int64_t{1}, "number of positions", true},
              {"sizes", Ints{}, "extent of each position's part; empty: all are equal"},
              {"extent", std::int64_t{-1}, "extent of this position's part, where parts have sizes"}},
    .dtypes = kAnyDType,
    .infer = infer,
    .reference = run,
    .cost = copy_part_cost,
    .layout = layout,
    .linear = {.inputs = 1}};

}  // namespace trireme::op
