// What collectives and messages share. `slot` is the message identity given by the Plan; -1 until then.
// These ops have no kernel: whoever runs the graph injects one (exec/host_op.h).
#pragma once

#include "trireme/op/detail/infer.h"

namespace trireme::op::detail {

inline constexpr std::uint32_t kHostTraits = kHostOp | kStateful;

AttrSpec slot_attr();
AttrSpec label_attr();
AttrSpec world_attr();
// The ranks that take part: those along an axis of the mesh, or the whole group. Ranks, roots and peers are
// positions along the axis.
AttrSpec mesh_axis_attr();
// The pieces of the ranks: along which dimension they lie, and their extents where these are not equal.
AttrSpec dim_attr();
AttrSpec sizes_attr();
Status expect_slot(const Attrs& attrs);
// The parts of a dimension over the ranks. Empty `sizes`: equal parts.
struct Pieces {
  std::int64_t world = 1;
  int dim = 0;
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;  // of the sizes

  // The whole extent where a rank has `extent` of it, and a rank's extent where the whole has `extent`:
  // `own` where there are sizes, one of which it is, else -1. Failures name the dimension of `x`.
  Result<std::int64_t> gathered(const TensorType& x) const;
  Result<std::int64_t> scattered(const TensorType& x, std::int64_t own) const;
};
// From the attributes of these names; the dimension is one of x.
Result<Pieces> pieces_of(const TensorType& x, const Attrs& attrs, std::string_view dim,
                         std::string_view sizes);
// The type of all pieces together (attributes world, dim, sizes) where input 0 is one of them, and of one
// where input 0 is all of them: the one of this rank, whose extent is the attribute `extent` where the pieces
// have sizes.
Types infer_gathered(TypeSpan in, const Attrs& attrs);
Types infer_scattered(TypeSpan in, const Attrs& attrs);
// What an op that only has an effect yields: an i64 scalar, the number of bytes handed over.
TensorType token_type();
// Every element on its own: any dimension may be cut.
std::vector<LayoutOption> any_cut(TypeSpan in, const Attrs& attrs);
// Any dimension but those that the attributes of these names say, along which the ranks' pieces lie.
std::vector<LayoutOption> cut_beside(TypeSpan in, const Attrs& attrs,
                                     std::initializer_list<std::string_view> dims);
// The same for `dim`; partial sums of another axis stay ones.
std::vector<LayoutOption> cut_beside_pieces(TypeSpan in, const Attrs& attrs);
// Any dimension; the tokens of the pieces add up to that of the whole.
std::vector<LayoutOption> token_layout(TypeSpan in, const Attrs& attrs);
// Adds that x may be partial (kPartial, kPartialMax) over another axis, which makes the output so.
void pass_partial(int kind, std::vector<LayoutOption>& options);
// `label` for the gradient of a node with this label.
std::string grad_label(const Attrs& attrs);

}  // namespace trireme::op::detail
