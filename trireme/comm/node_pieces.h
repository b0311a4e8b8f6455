// What the collectives of a graph cut and join, checked against the group that runs them. Internal to comm.
#pragma once

#include <algorithm>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/comm/pieces.h"
#include "trireme/exec/host_op.h"

namespace trireme::comm {

// The graph was made for as many ranks as the group has.
Status expect_world(const Group& group, const exec::HostCall& host);

// The pieces of `whole`, of which this rank has `piece`.
Result<PieceSpans> pieces_of(const Group& group, const exec::HostCall& host, const Tensor& whole,
                             const Tensor& piece);

// all_to_all: the pieces along the dimension that gets whole, and along the one that is cut.
struct Turned {
  PieceSpans from, to;
  bool have_sizes = false;  // which are not all equal
  std::int64_t rest = 1;    // elements for an index of either dimension
  // What one rank sends another.
  std::int64_t elems(int source, int target) const { return rest * from.size(source) * to.size(target); }
};
Result<Turned> turned_of(const Group& group, const exec::HostCall& host);

// Who sends which indices of the dimension to whom.
struct Halo {
  PieceSpans pieces;
  std::vector<std::int64_t> begins, ends;  // of each rank's window

  struct Indices {
    std::int64_t begin = 0, end = 0;
    std::int64_t count() const { return std::max<std::int64_t>(0, end - begin); }
  };
  // What rank `to` has in its window of what rank `from` holds.
  Indices shared(int from, int to) const;
  std::vector<collective::Edge> edges() const;
};
Result<Halo> halo_of(const Group& group, const exec::HostCall& host);

}  // namespace trireme::comm
