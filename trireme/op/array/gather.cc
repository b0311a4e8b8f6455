// Rows of a tensor by their indices.
#include <algorithm>

#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_index("indices", in[1]));
  TR_ASSIGN_OR_RETURN(const int axis, resolve_axis("axis", attrs.get_int("axis"), in[0]));
  auto shape = gathered_shape(in[0].shape, axis, in[1].shape);
  if (!shape.ok()) return shape.status().with_prefix("the result: ");
  return std::vector{TensorType{in[0].dtype, *shape}};
}

Result<Grads> grad(GradBuilder& g) {
  const TensorType x = g.type(g.input(0));
  TR_ASSIGN_OR_RETURN(const int axis, resolve_axis("axis", g.attrs().get_int("axis"), x));
  return Grads{g.add(kScatterAdd, {g.grad_output(0), g.input(1)},
                     {{"axis", std::int64_t{axis}}, {"shape", dims_of(x.shape)}}),
               Value{}};
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  const int axis = *resolve_axis("axis", a.attrs.get_int("axis"), x.type());
  const RowsView view = rows_view(x, axis, a.in(1), y);
  if (view.rows == 0 || y.shape().num_elems() == 0) return fill_zeros(y);
  const Strides none{};
  alignas(8) const std::byte zero[8]{};  // as wide as any element
  for_each_index(a.in(1), y, axis, [&](std::int64_t row, std::int64_t at) {
    const bool inside = row >= 0 && row < view.rows;
    copy_elements(x.dtype(), view.rest, inside ? address(x, row * view.x_row) : zero,
                  inside ? view.x_rest : none, address(y, at), view.y_rest);
  });
}

// Reads the rows that are named; how many of them are the same is not known.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const double read =
      std::min(static_cast<double>(in[0].num_bytes()), static_cast<double>(out[0].num_bytes()));
  const double n = elems(out[0]);
  return {.bytes = read + static_cast<double>(in[1].num_bytes() + out[0].num_bytes()),
          .work = n,
          .depth = n > 0 ? 1.0 : 0};
}

// Dimensions of x other than the axis, and all of the indices.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto axis = resolve_axis("axis", attrs.get_int("axis"), in[0]);
  std::vector<LayoutOption> options;
  if (!axis.ok()) return options;
  const int rank = in[1].shape.rank();
  for (int d = 0; d < in[0].shape.rank(); ++d) {
    if (d != *axis) options.push_back({{d, kReplicate}, {d < *axis ? d : d - 1 + rank}});
  }
  for (int d = 0; d < rank; ++d) options.push_back({{kReplicate, d}, {*axis + d}});
  return options;
}
}  // namespace

const OpDef kGather{.name = "gather",
                    .doc =
                        "Rows x[..., indices, ...] along one dimension: its place is taken by those of the "
                        "indices. An index out of range gives zeros.",
                    .family = "array",
                    .num_inputs = 2,
                    .attrs = {{"axis", std::int64_t{0}, "dimension; negative ones count from the end"}},
                    .dtypes = kAnyDType,
                    .infer = infer,
                    .grad = grad,
                    .reference = run,
                    .cost = cost,
                    .layout = layout,
                    .linear = {.inputs = 1}};

}  // namespace trireme::op
