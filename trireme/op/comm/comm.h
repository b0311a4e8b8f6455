// What collectives and messages share. `slot` is the message identity given by the Plan; -1 until then.
// These ops have no kernel: whoever runs the graph injects one (exec/host_op.h).
#pragma once

#include "trireme/op/detail/infer.h"

namespace trireme::op::detail {

inline constexpr std::uint32_t kHostTraits = kHostOp | kStateful;

AttrSpec slot_attr();
AttrSpec label_attr();
AttrSpec world_attr();
// The pieces of the ranks: along which dimension they lie, and their extents where these are not equal.
AttrSpec dim_attr();
AttrSpec sizes_attr();
Status expect_slot(const Attrs& attrs);
// The type of all pieces together (attributes world, dim, sizes) where input 0 is one of them, and of one
// where input 0 is all of them: the one of this rank, whose extent is the attribute `extent` where the pieces
// have sizes.
Types infer_gathered(TypeSpan in, const Attrs& attrs);
Types infer_scattered(TypeSpan in, const Attrs& attrs);
// What an op that only has an effect yields: an i64 scalar, the number of bytes handed over.
TensorType token_type();
// Every element on its own: any dimension may be cut.
std::vector<LayoutOption> any_cut(TypeSpan in, const Attrs& attrs);
// Any dimension but `dim`, along which the ranks' pieces lie.
std::vector<LayoutOption> cut_beside_pieces(TypeSpan in, const Attrs& attrs);
// Any dimension; the tokens of the pieces add up to that of the whole.
std::vector<LayoutOption> token_layout(TypeSpan in, const Attrs& attrs);
// `label` for the gradient of a node with this label.
std::string grad_label(const Attrs& attrs);

}  // namespace trireme::op::detail
