#include "trireme/op/sequence/recurrent_kept.h"

#include <algorithm>

#include "trireme/op/ops.h"
#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;

CellKind kind_of_cell(const Attrs& attrs) {
  const std::string& cell = attrs.get_text("cell");
  if (cell == "lstm") return kind_of<LstmCell>();
  if (cell == "gru") return kind_of<GruCell>();
  return cell == "rnn_relu" ? kind_of<RnnCell<true>>() : kind_of<RnnCell<false>>();
}

Status expect_cell(TypeSpan in, const Attrs& attrs, std::int64_t more) {
  const std::string& cell = attrs.get_text("cell");
  if (cell != "lstm" && cell != "gru" && cell != "rnn_relu" && cell != "rnn_tanh")
    return error(Code::kInvalid, "attribute 'cell': got '{}', expected lstm, gru, rnn_relu or rnn_tanh",
                 cell);
  if (attrs.get_int("bytes") < 0)
    return error(Code::kInvalid, "attribute 'bytes': got {}, expected 0 or more", attrs.get_int("bytes"));
  const std::int64_t count = kind_of_cell(attrs).num_inputs() + more;
  if (std::ssize(in) == count) return ok_status();
  return error(Code::kInvalid, "got {} inputs, expected {} for {}", in.size(), count, cell);
}

TensorType kept_type(const Attrs& attrs) { return {DType::kU8, {attrs.get_int("bytes")}}; }

// Without y and kept: what the gradient of the cell's own op takes.
template <typename T>
std::vector<T> plain_inputs(std::span<const T> in, const Attrs& attrs) {
  std::vector<T> plain(in.begin(), in.end());
  const auto at = plain.begin() + kind_of_cell(attrs).num_inputs();
  plain.erase(at, at + 2);
  return plain;
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_cell(in, attrs, 0));
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, infer_recurrent(kind_of_cell(attrs), Pass::kForward, in));
  out.push_back(kept_type(attrs));
  return out;
}

Types infer_grad(TypeSpan in, const Attrs& attrs) {
  const CellKind kind = kind_of_cell(attrs);
  TR_RETURN_IF_ERROR(expect_cell(in, attrs, 2 + kind.num_outputs()));
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out,
                      infer_recurrent(kind, Pass::kGrad, plain_inputs<TensorType>(in, attrs)));
  const auto n = static_cast<std::size_t>(kind.num_inputs());
  TR_RETURN_IF_ERROR(expect_type("y", in[n], in[n + 2]));
  TR_RETURN_IF_ERROR(expect_type("kept", in[n + 1], kept_type(attrs)));
  return out;
}

// The reference of the cell's own op.
void run_cell(KernelArgs& a, bool backward) {
  const KeptCell cell = kept_cell(a.attrs.get_text("cell"));
  KernelArgs plain{a.inputs, a.outputs, cell.attrs, a.workspace, a.parallel};
  (backward ? cell.grad : cell.forward)->reference(plain);
}

void run(KernelArgs& a) {
  run_cell(a, false);
  const Tensor& kept = a.outputs.back();
  std::fill_n(kept.data<std::uint8_t>(), kept.shape().num_elems(), std::uint8_t{0});
}

void run_grad(KernelArgs& a) {
  const std::vector<Tensor> inputs = plain_inputs<Tensor>(a.inputs, a.attrs);
  KernelArgs plain{inputs, a.outputs, a.attrs, a.workspace, a.parallel};
  run_cell(plain, true);
}

std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  return kept_cell(attrs.get_text("cell")).forward->reference_workspace(in, attrs);
}
std::size_t grad_workspace(TypeSpan in, const Attrs& attrs) {
  return kept_cell(attrs.get_text("cell")).grad->reference_workspace(in, attrs);
}

cost::OpCost cost_of(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost cost = recurrent_cost(kind_of_cell(attrs), Pass::kForward, in, out.first(out.size() - 1));
  cost.bytes += static_cast<double>(attrs.get_int("bytes"));
  return cost;
}
cost::OpCost grad_cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  cost::OpCost cost =
      recurrent_cost(kind_of_cell(attrs), Pass::kGrad, plain_inputs<TensorType>(in, attrs), out);
  cost.bytes = io_bytes(in, out);
  return cost;
}

// The batch, where nothing is kept: nobody knows how to cut that.
std::vector<LayoutOption> layout(TypeSpan, const Attrs& attrs) {
  if (attrs.get_int("bytes") > 0) return {};
  LayoutOption option = recurrent_layout(kind_of_cell(attrs), Pass::kForward)[0];
  option.outputs.push_back(kReplicate);
  return {option};
}
std::vector<LayoutOption> grad_layout(TypeSpan, const Attrs& attrs) {
  if (attrs.get_int("bytes") > 0) return {};
  const CellKind kind = kind_of_cell(attrs);
  LayoutOption option = recurrent_layout(kind, Pass::kGrad)[0];
  option.inputs.insert(option.inputs.begin() + kind.num_inputs(), {1, kReplicate});
  return {option};
}

std::vector<AttrSpec> attrs_of() {
  return {{"cell", std::string("lstm"), "lstm, gru, rnn_relu or rnn_tanh"},
          {"bytes", std::int64_t{0}, "of what is kept"},
          {"algorithm", std::int64_t{0}, "of the kernels, for both passes"}};
}
}  // namespace

KeptCell kept_cell(std::string_view cell) {
  if (cell == "lstm") return {cell, &kLstm, &kLstmGrad, {}};
  if (cell == "gru") return {cell, &kGru, &kGruGrad, {}};
  return {cell, &kRnn, &kRnnGrad, {{"nonlinearity", std::string(cell == "rnn_relu" ? "relu" : "tanh")}}};
}

std::string_view kept_cell_name(const OpDef& forward, const Attrs& attrs) {
  if (&forward != &kRnn && &forward != &kRnnGrad)
    return &forward == &kLstm || &forward == &kLstmGrad ? "lstm" : "gru";
  return attrs.get_text("nonlinearity") == "relu" ? "rnn_relu" : "rnn_tanh";
}

const OpDef kRecurrentKept{
    .name = "recurrent_kept",
    .doc = "rnn, lstm or gru that also yields bytes of its kernel's own for its gradient.",
    .family = "sequence",
    .num_inputs = -1,
    .num_outputs = -1,
    .attrs = attrs_of(),
    .infer = infer,
    .reference = run,
    .reference_workspace = workspace,
    .cost = cost_of,
    .layout = layout};

const OpDef kRecurrentKeptGrad{
    .name = "recurrent_kept_grad",
    .doc = "Gradients of the inputs of rnn, lstm or gru from these, y and what recurrent_kept kept.",
    .family = "sequence",
    .num_inputs = -1,
    .num_outputs = -1,
    .attrs = attrs_of(),
    .infer = infer_grad,
    .reference = run_grad,
    .reference_workspace = grad_workspace,
    .cost = grad_cost,
    .layout = grad_layout};

}  // namespace trireme::op
