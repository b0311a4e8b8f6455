// Index of the maximum along one dimension.
#include "trireme/op/detail/math.h"
#include "trireme/op/ops.h"
#include "trireme/op/reduce/reduce.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  TR_ASSIGN_OR_RETURN(const int axis, resolve_axis("axis", attrs.get_int("axis"), in[0]));
  if (in[0].shape[axis] == 0) {
    return error(Code::kInvalid, "x: got {}, expected at least one element along dimension {}",
                 in[0].to_string(), axis);
  }
  std::vector<std::int64_t> dims = dims_of(in[0].shape);
  if (attrs.get_bool("keep_dims")) {
    dims[idx(axis)] = 1;
  } else {
    dims.erase(dims.begin() + axis);
  }
  return std::vector{TensorType{DType::kI64, Shape(dims)}};
}

void run(KernelArgs& a) {
  const Tensor& x = a.in(0);
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), x.type());
  const std::int64_t size = x.shape()[axis], step = x.strides()[idx(axis)];
  Shape outer = x.shape();
  outer.set(axis, 1);
  dispatch_numeric(x.dtype(), [&]<typename T>() {
    const T* xs = x.data<T>();
    auto* out = a.out(0).data<std::int64_t>();
    walk_rows<2>(outer, {x.strides(), row_major_strides(outer)},
                 [&](const auto& offset, const auto& stride, std::int64_t n) {
                   for (std::int64_t i = 0; i < n; ++i) {
                     const T* row = xs + offset[0] + i * stride[0];
                     std::int64_t best = 0;
                     for (std::int64_t k = 1; k < size; ++k) {
                       const Acc<T> m = row[best * step], v = row[k * step];
                       if (!math::isnan(m) && (v > m || math::isnan(v))) best = k;
                     }
                     out[offset[1] + i * stride[1]] = best;
                   }
                 });
  });
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  std::vector<LayoutOption> options;
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  for (int d = 0; axis.ok() && d < in[0].shape.rank(); ++d) {
    if (d != *axis) options.push_back({{d}, {d > *axis && !attrs.get_bool("keep_dims") ? d - 1 : d}});
  }
  return options;
}
}  // namespace

const OpDef kArgmax{
    .name = "argmax",
    .doc = "Index (i64) of the maximum along one dimension; the first of ties, the first NaN if any.",
    .family = "reduce",
    .num_inputs = 1,
    .attrs = {{"axis", std::int64_t{-1}, "dimension; negative ones count from the end"},
              {"keep_dims", false, "keep the dimension with size 1"}},
    .dtypes = kNumeric,
    .infer = infer,
    .reference = run,
    .cost = cost_per_input<1>,
    .layout = layout};

}  // namespace trireme::op
