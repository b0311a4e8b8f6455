// The forward half: lstm with two more outputs.
#include "trireme/op/sequence/lstm_kept.h"

#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op {
namespace {
using namespace detail;

Types infer(TypeSpan in, const Attrs&) {
  TR_ASSIGN_OR_RETURN(std::vector<TensorType> out, infer_recurrent(kind_of<LstmCell>(), Pass::kForward, in));
  const Shape y = out[0].shape;
  out.push_back({in[0].dtype, {y[0], y[1], LstmCell::kGates * y[2]}});
  out.push_back(out[0]);
  return out;
}

void run(KernelArgs& a) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using N = Acc<T>;
    Scratch<N> scratch(a.workspace);
    Recurrence<LstmCell, N> r(a.in(0).type(), a.in(1).type(), scratch, /*backward=*/true);
    int i = 0;
    for (N* array : arrays_of_inputs(r)) load<T>(a.in(i++), array);
    r.forward();
    std::vector<N*> results = arrays_of_outputs(r);
    const std::int64_t gates = a.out(3).shape().num_elems();
    for (std::int64_t g = 0; g < gates; ++g) r.gates_x[g] += r.gates_h[g];
    results.push_back(r.gates_x);
    results.push_back(r.c);
    for (std::size_t k = 0; k < results.size(); ++k)
      store(results[k], a.outputs[k].data<T>(), a.outputs[k].shape().num_elems());
  });
}

// As lstm, and the two halves of every gate are added once more.
cost::OpCost cost_of(TypeSpan in, TypeSpan out, const Attrs&) {
  cost::OpCost cost = recurrent_cost(kind_of<LstmCell>(), Pass::kForward, in, out);
  cost.flops += static_cast<double>(out[3].shape.num_elems());
  return cost;
}

// The batch, as lstm.
std::vector<LayoutOption> layout(TypeSpan, const Attrs&) {
  LayoutOption option = recurrent_layout(kind_of<LstmCell>(), Pass::kForward)[0];
  option.outputs.insert(option.outputs.end(), {1, 1});
  return {option};
}
}  // namespace

const OpDef kLstmKept{
    .name = "lstm_kept",
    .doc = "lstm that also yields its gates, before the functions, and the cell states before every step.",
    .family = "sequence",
    .num_inputs = 7,
    .num_outputs = 5,
    .infer = infer,
    .reference = run,
    .reference_workspace = recurrent_workspace<LstmCell, Pass::kGrad>,
    .cost = cost_of,
    .layout = layout};

}  // namespace trireme::op
