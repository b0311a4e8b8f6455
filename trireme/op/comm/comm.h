// What collectives and messages share. `slot` is the message identity given by the Plan; -1 until then.
// These ops have no kernel: whoever runs the graph injects one (exec/host_op.h).
#pragma once

#include "trireme/op/detail/infer.h"

namespace trireme::op::detail {

inline constexpr std::uint32_t kHostTraits = kHostOp | kStateful;

AttrSpec slot_attr();
AttrSpec label_attr();
AttrSpec world_attr();
Status expect_slot(const Attrs& attrs);
// The type of input 0 with dimension 0 multiplied or divided by the attribute `world`.
Types infer_gathered(TypeSpan in, const Attrs& attrs);
Types infer_scattered(TypeSpan in, const Attrs& attrs);
// What an op that only has an effect yields: an i64 scalar, the number of bytes handed over.
TensorType token_type();
// Every element on its own: any dimension may be cut.
std::vector<LayoutOption> any_cut(TypeSpan in, const Attrs& attrs);
// Any dimension but 0, along which the ranks' pieces lie.
std::vector<LayoutOption> cut_behind_ranks(TypeSpan in, const Attrs& attrs);
// Any dimension; the tokens of the pieces add up to that of the whole.
std::vector<LayoutOption> token_layout(TypeSpan in, const Attrs& attrs);
// `label` for the gradient of a node with this label.
std::string grad_label(const Attrs& attrs);

}  // namespace trireme::op::detail
