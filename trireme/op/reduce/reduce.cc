#include "trireme/op/reduce/reduce.h"

#include <fmt/format.h>
#include <algorithm>

#include "trireme/op/ops.h"

namespace trireme::op::detail {

std::vector<AttrSpec> reduce_attrs() {
  return {{"axes", std::vector<std::int64_t>{},
           "dimensions to reduce, negative ones count from the end; empty: all"},
          {"keep_dims", false, "keep reduced dimensions with size 1"}};
}

Result<Axes> resolve_axes(const TensorType& x, const Attrs& attrs) {
  Axes axes;
  const int rank = x.shape.rank();
  const auto& given = attrs.get_ints("axes");
  for (int d = 0; given.empty() && d < rank; ++d) axes.reduced[idx(d)] = true;
  for (const std::int64_t a : given) {
    const std::int64_t d = a < 0 ? a + rank : a;
    if (d < 0 || d >= rank || axes.reduced[idx(d)]) {
      return error(Code::kInvalid,
                   "attribute 'axes': got [{}] for {}, expected distinct dimensions in [-{}, {})",
                   fmt::join(given, ", "), x.to_string(), rank, rank);
    }
    axes.reduced[idx(d)] = true;
  }
  for (int d = 0; d < rank; ++d) axes.count *= axes.reduced[idx(d)] ? x.shape[d] : 1;
  return axes;
}

Types infer_reduce(const TensorType& x, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Axes axes, resolve_axes(x, attrs));
  std::vector<std::int64_t> dims;
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (!axes.reduced[idx(d)]) {
      dims.push_back(x.shape[d]);
    } else if (attrs.get_bool("keep_dims")) {
      dims.push_back(1);
    }
  }
  return std::vector{TensorType{x.dtype, Shape(dims)}};
}

Types infer_reduce_numeric(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_numeric("x", in[0]));
  return infer_reduce(in[0], attrs);
}

Types infer_reduce_float(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("x", in[0]));
  return infer_reduce(in[0], attrs);
}

Types infer_reduce_bool(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_dtype("x", in[0], DType::kBool));
  return infer_reduce(in[0], attrs);
}

namespace {
// `reduced_output`: what cutting a reduced dimension makes of the output, or nothing when it cannot be cut.
std::vector<LayoutOption> layout_with(TypeSpan in, const Attrs& attrs, std::optional<int> reduced_output,
                                      bool rewritten = false) {
  std::vector<LayoutOption> options;
  const auto axes = resolve_axes(in[0], attrs);
  if (!axes.ok()) return options;
  int out = 0;
  for (int d = 0; d < in[0].shape.rank(); ++d) {
    if (!axes->reduced[idx(d)]) {
      options.push_back({{d}, {out}});
    } else if (reduced_output) {
      options.push_back({{d}, {*reduced_output}, rewritten, /*any_indices=*/rewritten});
    }
    if (!axes->reduced[idx(d)] || attrs.get_bool("keep_dims")) ++out;
  }
  return options;
}
}  // namespace

std::vector<LayoutOption> reduce_layout(TypeSpan in, const Attrs& attrs) {
  return layout_with(in, attrs, std::nullopt);
}

std::vector<LayoutOption> partial_sums_layout(TypeSpan in, const Attrs& attrs) {
  return layout_with(in, attrs, kPartial);
}

std::vector<LayoutOption> partial_maxima_layout(TypeSpan in, const Attrs& attrs) {
  return layout_with(in, attrs, kPartialMax);
}

std::vector<LayoutOption> rewritten_layout(TypeSpan in, const Attrs& attrs, int reduced_output) {
  const auto axes = resolve_axes(in[0], attrs);
  if (axes.ok() && axes->count == 0) return reduce_layout(in, attrs);
  return layout_with(in, attrs, reduced_output, /*rewritten=*/true);
}

cost::OpCost reduce_cost(TypeSpan in, TypeSpan out, double flops_in, double flops_out) {
  cost::OpCost cost = fold_cost(in, out, flops_in);
  cost.flops += flops_out * elems(out[0]);
  cost.work += flops_out * elems(out[0]);
  return cost;
}

void split_axes(const Tensor& x, const Axes& axes, Shape& kept, Strides& kept_strides, Shape& gone,
                Strides& gone_strides) {
  std::array<std::int64_t, kMaxRank> stay{}, fold{};
  std::size_t num_stay = 0, num_fold = 0;
  for (int d = 0; d < x.shape().rank(); ++d) {
    if (axes.reduced[idx(d)]) {
      fold[num_fold] = x.shape()[d];
      gone_strides[num_fold++] = x.strides()[idx(d)];
    } else {
      stay[num_stay] = x.shape()[d];
      kept_strides[num_stay++] = x.strides()[idx(d)];
    }
  }
  kept = Shape(std::span<const std::int64_t>(stay.data(), num_stay));
  gone = Shape(std::span<const std::int64_t>(fold.data(), num_fold));
}

Value broadcast_reduced(GradBuilder& g, Value v) {
  const TensorType x = g.type(g.input(0));
  const auto axes = resolve_axes(x, g.attrs());
  Shape kept = x.shape;
  for (int d = 0; d < kept.rank(); ++d) {
    if (axes->reduced[idx(d)]) kept.set(d, 1);
  }
  if (g.type(v).shape != kept) v = g.add(kReshape, {v}, {{"shape", dims_of(kept)}});
  return g.type(v).shape == x.shape ? v : g.add(kBroadcastTo, {v}, {{"shape", dims_of(x.shape)}});
}

}  // namespace trireme::op::detail
