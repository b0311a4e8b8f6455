// Rows added into zeros at their indices: what gather does, backwards.
#include <algorithm>

#include "trireme/op/array/array.h"
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Result<int> axis_of(const Shape& shape, const Attrs& attrs) {
  return resolve_axis("axis", attrs.get_int("axis"), {DType::kF32, shape});
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("updates", in[0]));
  TR_RETURN_IF_ERROR(expect_index("indices", in[1]));
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", attrs.get_ints("shape")));
  TR_ASSIGN_OR_RETURN(const int axis, axis_of(shape, attrs));
  auto expected = gathered_shape(shape, axis, in[1].shape);
  if (!expected.ok()) return expected.status().with_prefix("updates: ");
  TR_RETURN_IF_ERROR(expect_shape("updates", in[0], *expected));
  return std::vector{TensorType{in[0].dtype, shape}};
}

Result<Grads> grad(GradBuilder& g) {
  return Grads{g.add(kGather, {g.grad_output(0), g.input(1)}, {{"axis", g.attrs().get_int("axis")}}),
               Value{}};
}

// 16-bit floats are summed in f32: the workspace holds the sums.
std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  const auto shape = shape_from("shape", attrs.get_ints("shape"));
  const bool half = in[0].dtype == DType::kBF16 || in[0].dtype == DType::kF16;
  return half ? idx(shape->num_elems()) * sizeof(float) : 0;
}

void run(KernelArgs& a) {
  const Tensor &updates = a.in(0), &y = a.out(0);
  const int axis = *axis_of(y.shape(), a.attrs);
  const RowsView view = rows_view(y, axis, a.in(1), updates);
  dispatch_numeric(y.dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const std::span<T> out = y.values<T>();
    A* sums = nullptr;
    if constexpr (kIsHalf<T>) {
      sums = reinterpret_cast<A*>(a.workspace.data());
    } else {
      sums = out.data();
    }
    std::fill_n(sums, out.size(), A{0});
    for_each_index(a.in(1), updates, axis, [&](std::int64_t row, std::int64_t at) {
      if (row < 0 || row >= view.rows) return;
      const T* from = updates.data<T>() + at;
      A* to = sums + row * view.x_row;
      walk_rows<2>(view.rest, {view.x_rest, view.y_rest},
                   [&](const auto& offset, const auto& stride, std::int64_t n) {
                     for (std::int64_t i = 0; i < n; ++i) {
                       const A v = from[offset[1] + i * stride[1]];
                       A& sum = to[offset[0] + i * stride[0]];
                       sum = static_cast<A>(wrapping(sum) + wrapping(v));
                     }
                   });
    });
    if constexpr (kIsHalf<T>) std::copy_n(sums, out.size(), out.data());
  });
}

// At worst all updates fall on one row.
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs&) {
  const double n = elems(in[0]);
  return {
      .flops = n, .bytes = io_bytes(in, out), .work = n + elems(out[0]), .depth = log_depth(elems(in[1]))};
}

// Dimensions other than the axis; updates with their indices, whose pieces give partial sums.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto shape = shape_from("shape", attrs.get_ints("shape"));
  std::vector<LayoutOption> options;
  if (!shape.ok()) return options;
  const auto axis = axis_of(*shape, attrs);
  if (!axis.ok()) return options;
  const int rank = in[1].shape.rank();
  for (int d = 0; d < shape->rank(); ++d) {
    if (d != *axis) options.push_back({{d < *axis ? d : d - 1 + rank, kReplicate}, {d}});
  }
  for (int d = 0; d < rank; ++d) options.push_back({{*axis + d, d}, {kPartial}});
  return options;
}
}  // namespace

const OpDef kScatterAdd{
    .name = "scatter_add",
    .doc =
        "Zeros of a shape with updates added at rows given by indices, in their order. An index out of range "
        "adds nothing.",
    .family = "array",
    .num_inputs = 2,
    .attrs = {{"axis", std::int64_t{0}, "dimension of the rows; negative ones count from the end"},
              {"shape", Ints{}, "shape of the result", true}},
    .dtypes = kNumeric,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost,
    .layout = layout,
    .linear = {.inputs = 1},
    .shape_attr = "shape"};

}  // namespace trireme::op
