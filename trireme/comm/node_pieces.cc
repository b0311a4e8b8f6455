#include "trireme/comm/node_pieces.h"

namespace trireme::comm {

using exec::HostCall;

namespace {

// The piece is that of this rank.
Status expect_own(const Group& group, const HostCall& host, const PieceSpans& pieces, const Tensor& piece) {
  const int dim = pieces.along.dim;
  if (piece.shape()[dim] == pieces.size(group.rank())) return {};
  return error(Code::kInvalid,
               "[comm] node '{}' has a piece of another rank: got extent {} in dimension {}, expected {} on "
               "rank {}",
               host.node.name, piece.shape()[dim], dim, pieces.size(group.rank()), group.rank());
}

}  // namespace

Status expect_world(const Group& group, const HostCall& host) {
  const std::int64_t world = host.node.attrs.get_int("world");
  if (world == group.world()) return {};
  return error(Code::kInvalid, "[comm] node '{}' is for {} ranks: the group has {}", host.node.name, world,
               group.world());
}

Result<PieceSpans> pieces_of(const Group& group, const HostCall& host, const Tensor& whole,
                             const Tensor& piece) {
  TR_RETURN_IF_ERROR(expect_world(group, host));
  PieceSpans p = PieceSpans::of(host.node.attrs, whole.type());
  TR_RETURN_IF_ERROR(expect_own(group, host, p, piece));
  return p;
}

Result<Turned> turned_of(const Group& group, const HostCall& host) {
  const Tensor &in = host.inputs[0], &out = host.outputs[0];
  const op::Attrs& attrs = host.node.attrs;
  const auto &sizes_from = attrs.get_ints("sizes_from"), &sizes_to = attrs.get_ints("sizes_to");
  TR_RETURN_IF_ERROR(expect_world(group, host));
  Turned turned{PieceSpans::of(out.type(), attrs.get_int("from"), group.world(), sizes_from),
                PieceSpans::of(in.type(), attrs.get_int("to"), group.world(), sizes_to),
                !sizes_from.empty() || !sizes_to.empty()};
  TR_RETURN_IF_ERROR(expect_own(group, host, turned.from, in));
  TR_RETURN_IF_ERROR(expect_own(group, host, turned.to, out));
  for (int d = 0; d < in.shape().rank(); ++d)
    if (d != turned.from.along.dim && d != turned.to.along.dim) turned.rest *= in.shape()[d];
  return turned;
}

Halo::Indices Halo::shared(int from, int to) const {
  const auto at = static_cast<std::size_t>(to);
  return {std::max(begins[at], pieces.start(from)), std::min(ends[at], pieces.start(from + 1))};
}

std::vector<collective::Edge> Halo::edges() const {
  std::vector<collective::Edge> all;
  for (int from = 0; from < pieces.world(); ++from)
    for (int to = 0; to < pieces.world(); ++to)
      if (const std::int64_t count = pieces.along.elems(shared(from, to).count()); from != to && count > 0)
        all.push_back({from, to, count});
  return all;
}

Result<Halo> halo_of(const Group& group, const HostCall& host) {
  TR_RETURN_IF_ERROR(expect_world(group, host));
  const op::Attrs& attrs = host.node.attrs;
  const Along along = Along::of(host.inputs[0].type(), attrs.get_int("dim"));
  std::vector<std::int64_t> sizes = attrs.get_ints("sizes");
  if (sizes.empty()) sizes.assign(static_cast<std::size_t>(group.world()), host.inputs[0].shape()[along.dim]);
  Halo halo{PieceSpans::of(host.inputs[0].type(), along.dim, group.world(), sizes), attrs.get_ints("begins"),
            attrs.get_ints("ends")};
  TR_RETURN_IF_ERROR(expect_own(group, host, halo.pieces, host.inputs[0]));
  const auto at = static_cast<std::size_t>(group.rank());
  const std::int64_t window = halo.ends[at] - halo.begins[at], own = attrs.get_int("extent");
  if (window == own) return halo;
  return error(Code::kInvalid,
               "[comm] node '{}' has the window of another rank: got extent {}, expected {} on rank {}",
               host.node.name, own, window, group.rank());
}

}  // namespace trireme::comm
