// What the three rnn ops share: the choice between tanh and relu.
#pragma once

#include "trireme/op/sequence/recurrent_kernel.h"

namespace trireme::op::detail {

inline std::vector<AttrSpec> rnn_attrs() { return {{"nonlinearity", std::string("tanh"), "tanh or relu"}}; }
inline bool is_relu(const Attrs& attrs) { return attrs.get_text("nonlinearity") == "relu"; }
inline Status expect_nonlinearity(const Attrs& attrs) {
  const std::string& name = attrs.get_text("nonlinearity");
  if (name == "tanh" || name == "relu") return ok_status();
  return error(Code::kInvalid, "attribute 'nonlinearity': got '{}', expected 'tanh' or 'relu'", name);
}
inline CellKind rnn_kind(const Attrs& attrs) {
  return is_relu(attrs) ? kind_of<RnnCell<true>>() : kind_of<RnnCell<false>>();
}

template <Pass kPass>
Types infer_rnn(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_nonlinearity(attrs));
  return infer_recurrent(rnn_kind(attrs), kPass, in);
}

template <Pass kPass>
void run_rnn(KernelArgs& a) {
  if (is_relu(a.attrs)) return run_recurrent<RnnCell<true>, kPass>(a);
  run_recurrent<RnnCell<false>, kPass>(a);
}

template <Pass kPass>
cost::OpCost rnn_cost(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return recurrent_cost(rnn_kind(attrs), kPass, in, out);
}

template <Pass kPass>
std::vector<LayoutOption> rnn_layout(TypeSpan, const Attrs& attrs) {
  return recurrent_layout(rnn_kind(attrs), kPass);
}

}  // namespace trireme::op::detail
