// A box of a tensor, with steps.
#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const std::vector<SliceDim> dims, resolve_slice(in[0], attrs));
  TensorType out = in[0];
  for (int d = 0; d < out.shape.rank(); ++d) out.shape.set(d, dims[idx(d)].size);
  return std::vector{out};
}

Result<Grads> grad(GradBuilder& g) {
  Attrs attrs = g.attrs();
  attrs.set("shape", dims_of(g.type(g.input(0)).shape));
  return Grads{g.add(kSliceGrad, {g.grad_output(0)}, attrs)};
}

void run(KernelArgs& a) {
  const Tensor &x = a.in(0), &y = a.out(0);
  if (y.shape().num_elems() == 0) return;
  const auto dims = resolve_slice(x.type(), a.attrs);
  Strides strides{};
  std::int64_t first = 0;
  for (int d = 0; d < x.shape().rank(); ++d) {
    first += (*dims)[idx(d)].begin * x.strides()[idx(d)];
    strides[idx(d)] = (*dims)[idx(d)].step * x.strides()[idx(d)];
  }
  copy_elements(x.dtype(), y.shape(), address(x, first), strides, y.raw(), y.strides());
}

// Dimensions of which all is taken, whatever their size, or one block.
std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto dims = resolve_slice(in[0], attrs);
  if (!dims.ok()) return {};
  std::vector<LayoutOption> options;
  for (int d = 0; d < in[0].shape.rank(); ++d) {
    const SliceDim& taken = (*dims)[idx(d)];
    if (taken.whole)
      options.push_back({{d}, {d}});
    else if (const int blocks = blocks_of_slice(taken, in[0].shape[d]); blocks > 0)
      options.push_back({{AxisCut(d, blocks)}, {d}, /*rewritten=*/true, /*any_indices=*/true});
  }
  return options;
}

Result<std::vector<Value>> cut(CutBuilder& b) {
  TR_ASSIGN_OR_RETURN(const std::vector<SliceDim> dims, resolve_slice(b.whole_input(0), b.attrs()));
  const int d = b.option().inputs[0].dim;
  const SliceDim& taken = dims[idx(d)];
  const int blocks = blocks_of_slice(taken, b.whole_input(0).shape[d]);
  return std::vector{
      b.add(kSlice, {b.input(0)}, slice_of_block(b.attrs(), taken, d, blocks, b.type(b.input(0)).shape[d]))};
}
}  // namespace

const OpDef kSlice{
    .name = "slice",
    .doc = "Elements begin, begin + step... before end of each dimension; beyond a dimension is clipped.",
    .family = "array",
    .num_inputs = 1,
    .attrs = slice_attrs(),
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = copy_part_cost,
    .layout = layout,
    .linear = {.inputs = 1},
    .cut = cut};

}  // namespace trireme::op
