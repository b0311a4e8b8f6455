// Batch norm, perhaps a residual, and relu as one op, with its gradients. Made by the pass `fuse_norms`,
// after gradients: they have none of their own. Formulas: op/nn/norm.h.
#include "trireme/op/fused/batch_norm_relu.h"

#include <array>

#include "trireme/op/nn/norm.h"
#include "trireme/op/ops.h"

namespace trireme::op {
namespace {
using namespace detail;

constexpr std::size_t kAlign = 64;
std::size_t padded(const TensorType& type) { return (type.num_bytes() + kAlign - 1) / kAlign * kAlign; }

Tensor placed(std::span<std::byte> memory, const TensorType& type) {
  return Tensor(Buffer::wrap(cpu_device(), memory.data(), padded(type)), type);
}

template <std::size_t N>
void run_op(const OpDef& def, const std::array<Tensor, N>& in, std::span<const Tensor> out, KernelArgs& a,
            std::span<std::byte> workspace = {}) {
  KernelArgs args{in, out, a.attrs, workspace, a.parallel};
  def.reference(args);
}

// ---- batch_norm_relu: x, scale, bias, perhaps a residual
Types infer(TypeSpan in, const Attrs& attrs) {
  if (in.size() != 3 && in.size() != 4)
    return error(Code::kInvalid, "got {} inputs, expected x, scale, bias and perhaps a residual", in.size());
  if (in.size() == 4) TR_RETURN_IF_ERROR(expect_type("residual", in[3], in[0]));
  return kBatchNorm.infer(in.first(3), attrs);
}

void run(KernelArgs& a) {
  KernelArgs norm{a.inputs.first(3), a.outputs, a.attrs, a.workspace, a.parallel};
  kBatchNorm.reference(norm);
  if (a.inputs.size() == 4) run_op(kAdd, std::array{a.out(0), a.in(3)}, a.outputs.first(1), a);
  run_op(kRelu, std::array{a.out(0)}, a.outputs.first(1), a);
}

cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost total = kBatchNorm.cost(in.first(3), out, attrs);
  const TypeSpan y = out.first(1);
  if (in.size() == 4) total += kAdd.cost(std::array{out[0], in[3]}, y, {});
  total += kRelu.cost(y, y, {});
  total.bytes = io_bytes(in, out);
  return total;
}

std::vector<LayoutOption> layout(TypeSpan in, const Attrs&) {
  LayoutOption channels{{1, 0, 0}, {1, 0, 0}};
  if (in.size() == 4) channels.inputs.push_back(1);
  return {channels};
}

// ---- batch_norm_relu_grad: x, scale, bias, mean, var, dy
Types infer_grad(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(kBatchNormInference.infer(in.first(5), attrs).status());
  return kBatchNormGrad.infer(std::array{in[0], in[1], in[3], in[4], in[5]}, attrs);
}

// y, then dy where y is positive; the norm's own part is behind them.
std::size_t workspace_grad(TypeSpan in, const Attrs& attrs) {
  return 2 * padded(in[0]) + kBatchNormGrad.reference_workspace(in, attrs);
}

void run_grad(KernelArgs& a) {
  const TensorType type = a.in(0).type();
  const Tensor y = placed(a.workspace, type), dy = placed(a.workspace.subspan(padded(type)), type);
  KernelArgs again{a.inputs.first(5), {&y, 1}, a.attrs, {}, a.parallel};
  kBatchNormInference.reference(again);
  run_op(kReluGrad, std::array{a.in(5), y}, {&dy, 1}, a);
  run_op(kBatchNormGrad, std::array{a.in(0), a.in(1), a.in(3), a.in(4), dy}, a.outputs, a,
         a.workspace.subspan(2 * padded(type)));
}

cost::OpCost cost_grad(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost total = kBatchNormInference.cost(in.first(5), out.first(1), attrs);
  total += kReluGrad.cost(std::array{in[5], in[0]}, out.first(1), {});
  total += kBatchNormGrad.cost(std::array{in[0], in[1], in[3], in[4], in[5]}, out, attrs);
  total.bytes = io_bytes(in, out);
  return total;
}

std::vector<LayoutOption> layout_grad(TypeSpan, const Attrs&) { return {{{1, 0, 0, 0, 0, 1}, {1, 0, 0}}}; }

// ---- batch_norm_add_relu_grad: x, scale, mean, var, y, dy, perhaps a second part of dy
Types infer_add_grad(TypeSpan in, const Attrs& attrs) {
  if (in.size() != 6 && in.size() != 7)
    return error(Code::kInvalid, "got {} inputs, expected x, scale, mean, var, y and one or two dy",
                 in.size());
  TR_RETURN_IF_ERROR(expect_type("y", in[4], in[0]));
  if (in.size() == 7) TR_RETURN_IF_ERROR(expect_type("the second dy", in[6], in[0]));
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out,
                      kBatchNormGrad.infer(std::array{in[0], in[1], in[2], in[3], in[5]}, attrs));
  out.push_back(in[0]);
  return out;
}

void run_add_grad(KernelArgs& a) {
  const Tensor& residual = a.out(3);
  if (a.inputs.size() == 7) run_op(kAdd, std::array{a.in(5), a.in(6)}, {&residual, 1}, a);
  const Tensor& dy = a.inputs.size() == 7 ? residual : a.in(5);
  run_op(kReluGrad, std::array{dy, a.in(4)}, {&residual, 1}, a);
  run_op(kBatchNormGrad, std::array{a.in(0), a.in(1), a.in(2), a.in(3), residual}, a.outputs.first(3), a,
         a.workspace);
}

cost::OpCost cost_add_grad(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost total = kReluGrad.cost(std::array{in[5], in[4]}, out.first(1), {});
  if (in.size() == 7) total += kAdd.cost(std::array{in[5], in[6]}, out.first(1), {});
  total += kBatchNormGrad.cost(std::array{in[0], in[1], in[2], in[3], in[5]}, out.first(3), attrs);
  total.bytes = io_bytes(in, out);
  return total;
}

std::vector<LayoutOption> layout_add_grad(TypeSpan in, const Attrs&) {
  LayoutOption channels{{1, 0, 0, 0, 1, 1}, {1, 0, 0, 1}};
  if (in.size() == 7) channels.inputs.push_back(1);
  return {channels};
}
}  // namespace

const OpDef kBatchNormRelu{
    .name = "batch_norm_relu",
    .doc =
        "relu of batch_norm of (x, scale, bias), to which a residual may be added before; outputs y, mean, "
        "var.",
    .family = "nn",
    .num_inputs = -1,
    .num_outputs = 3,
    .attrs = {eps_attr()},
    .infer = infer,
    .reference = run,
    .cost = cost,
    .layout = layout};

const OpDef kBatchNormReluGrad{
    .name = "batch_norm_relu_grad",
    .doc =
        "Gradient of batch_norm_relu without a residual from (x, scale, bias, mean, var, dy): dx, dscale, "
        "dbias. Computes again where y is positive.",
    .family = "nn",
    .num_inputs = 6,
    .num_outputs = 3,
    .attrs = {eps_attr()},
    .infer = infer_grad,
    .reference = run_grad,
    .reference_workspace = workspace_grad,
    .cost = cost_grad,
    .layout = layout_grad,
    .linear = {.inputs = 1U << 5}};

const OpDef kBatchNormAddReluGrad{
    .name = "batch_norm_add_relu_grad",
    .doc =
        "Gradient of batch_norm_relu with a residual from (x, scale, mean, var, y, dy), where dy may be the "
        "sum of two inputs: dx, dscale, dbias, dresidual.",
    .family = "nn",
    .num_inputs = -1,
    .num_outputs = 4,
    .attrs = {eps_attr()},
    .infer = infer_add_grad,
    .reference = run_add_grad,
    .reference_workspace = [](TypeSpan in,
                              const Attrs& attrs) { return kBatchNormGrad.reference_workspace(in, attrs); },
    .cost = cost_add_grad,
    .layout = layout_add_grad,
    .linear = {.inputs = 0b1100000, .together = true}};

}  // namespace trireme::op
