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

}  // namespace trireme::op::detail
