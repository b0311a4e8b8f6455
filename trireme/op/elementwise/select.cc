// a where the condition holds, else b: elements are moved, not computed with.
#include "trireme/op/elementwise/elementwise.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_RETURN_IF_ERROR(expect_dtype("cond", in[0], DType::kBool));
  TR_RETURN_IF_ERROR(expect_dtype("b", in[2], in[1].dtype));
  auto shape = broadcast_shapes(in[1].shape, in[2].shape);
  if (!shape.ok()) return shape.status().with_prefix("a and b: ");
  auto all = broadcast_shapes(in[0].shape, *shape);
  if (!all.ok()) return all.status().with_prefix("cond and the others: ");
  return std::vector{TensorType{in[1].dtype, *all}};
}

// Each side gets dy where it was taken.
Result<Grads> grad(GradBuilder& g) {
  const Value cond = g.input(0), dy = g.grad_output(0), zero = scalar_like(g, dy, 0);
  Grads grads(3);
  if (g.needs_grad(1)) grads[1] = g.reduce_to_shape_of(g.add(kSelect, {cond, dy, zero}), g.input(1));
  if (g.needs_grad(2)) grads[2] = g.reduce_to_shape_of(g.add(kSelect, {cond, zero, dy}), g.input(2));
  return grads;
}

void run(KernelArgs& a) {
  const Tensor& y = a.out(0);
  const auto strides = [&](int i) { return broadcast_strides(a.in(i), y.shape()); };
  const bool* cond = a.in(0).data<bool>();
  dispatch_bits(y.dtype(), [&]<typename Word>() {
    const auto* as = reinterpret_cast<const Word*>(a.in(1).raw());
    const auto* bs = reinterpret_cast<const Word*>(a.in(2).raw());
    auto* ys = reinterpret_cast<Word*>(y.raw());
    walk_rows<4>(y.shape(), {strides(0), strides(1), strides(2), y.strides()},
                 [&](const auto& at, const auto& step, std::int64_t n) {
                   for (std::int64_t i = 0; i < n; ++i) {
                     const bool first = cond[at[0] + i * step[0]];
                     ys[at[3] + i * step[3]] = first ? as[at[1] + i * step[1]] : bs[at[2] + i * step[2]];
                   }
                 });
  });
}
}  // namespace

const OpDef kSelect{.name = "select",
                    .doc = "Elementwise a where cond (bool) holds, else b; all three broadcast as in NumPy.",
                    .family = "elementwise",
                    .num_inputs = 3,
                    .dtypes = only(DType::kBool),
                    .infer = infer,
                    .grad = grad,
                    .reference = run,
                    .cost = cost_per_output<0>,
                    .layout = elementwise_layout,
                    .linear = {.inputs = 0b110, .together = true},
                    .traits = kElementwise};

}  // namespace trireme::op
