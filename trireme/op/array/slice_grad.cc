// Gradient of slice: dy at the places that slice took, zero elsewhere.
#include "trireme/op/array/array.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> specs = slice_attrs();
  specs.push_back({"shape", Ints{}, "shape of the result: that of slice's input", true});
  return specs;
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_ASSIGN_OR_RETURN(const Shape shape, shape_from("shape", attrs.get_ints("shape")));
  const TensorType out{in[0].dtype, shape};
  TR_ASSIGN_OR_RETURN(const std::vector<SliceDim> dims, resolve_slice(out, attrs));
  Shape taken = shape;
  for (int d = 0; d < shape.rank(); ++d) taken.set(d, dims[idx(d)].size);
  TR_RETURN_IF_ERROR(expect_shape("dy", in[0], taken));
  return std::vector{out};
}

Result<Grads> grad(GradBuilder& g) {
  Attrs attrs;
  for (const char* name : {"begin", "end", "step"}) attrs.set(name, g.attrs().get_ints(name));
  return Grads{g.add(kSlice, {g.grad_output(0)}, attrs)};
}

void run(KernelArgs& a) {
  const Tensor &dy = a.in(0), &dx = a.out(0);
  fill_zeros(dx);
  if (dy.shape().num_elems() == 0) return;
  const auto dims = resolve_slice(dx.type(), a.attrs);
  Strides strides{};
  std::int64_t first = 0;
  for (int d = 0; d < dx.shape().rank(); ++d) {
    first += (*dims)[idx(d)].begin * dx.strides()[idx(d)];
    strides[idx(d)] = (*dims)[idx(d)].step * dx.strides()[idx(d)];
  }
  copy_elements(dy.dtype(), dy.shape(), dy.raw(), dy.strides(), address(dx, first), strides);
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs& attrs) {
  const auto shape = shape_from("shape", attrs.get_ints("shape"));
  if (!shape.ok()) return {};
  const auto dims = resolve_slice({in[0].dtype, *shape}, attrs);
  if (!dims.ok()) return {};
  std::vector<LayoutOption> options;
  for (int d = 0; d < shape->rank(); ++d) {
    const SliceDim& taken = (*dims)[idx(d)];
    if (taken.whole)
      options.push_back({{d}, {d}});
    else if (const int blocks = blocks_of_slice(taken, (*shape)[d]); blocks > 0)
      options.push_back({{d}, {AxisCut(d, blocks)}, /*rewritten=*/true, /*any_indices=*/true});
  }
  return options;
}

Result<std::vector<Value>> cut(CutBuilder& b) {
  const TensorType& whole = b.whole_output(0);
  TR_ASSIGN_OR_RETURN(const std::vector<SliceDim> dims, resolve_slice(whole, b.attrs()));
  const int d = b.option().inputs[0].dim;
  const int blocks = blocks_of_slice(dims[idx(d)], whole.shape[d]);
  Ints shape = dims_of(whole.shape);
  shape[idx(d)] = b.type(b.input(0)).shape[d] * blocks;
  Attrs attrs = slice_of_block(b.attrs(), dims[idx(d)], d, blocks, shape[idx(d)]);
  attrs.set("shape", shape);
  return std::vector{b.add(kSliceGrad, {b.input(0)}, attrs)};
}
}  // namespace

const OpDef kSliceGrad{
    .name = "slice_grad",
    .doc = "Gradient of slice: dy at the places that slice took of the given shape, zero elsewhere.",
    .family = "array",
    .num_inputs = 1,
    .attrs = attrs(),
    .dtypes = kAnyDType,
    .infer = infer,
    .grad = grad,
    .reference = run,
    .cost = copy_cost,
    .layout = layout,
    .linear = {.inputs = 1},
    .cut = cut,
    .shape_attr = "shape"};

}  // namespace trireme::op
