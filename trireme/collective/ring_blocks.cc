// The two halves of the ring allreduce as collectives of their own, with a block per rank of any size:
// reduce-scatter adds block r along the ring and ends at rank r, allgather passes the blocks on.
#include <algorithm>

#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/contract.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

struct Ring {
  int world, rank;
  int next() const { return (rank + 1) % world; }
  int prev() const { return (rank + world - 1) % world; }
  int block(int c) const { return ((c % world) + world) % world; }
};

Result<RankProgram> build_reduce_scatter(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{rank, rank_blocks(spec)};
  const Ring ring{spec.world, rank};
  for (int round = 0; round < spec.world - 1; ++round)
    b.exchange_reduce(ring.next(), ring.block(rank - 1 - round), ring.prev(), ring.block(rank - 2 - round));
  return b.build();
}

Result<RankProgram> build_allgather(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{rank, rank_blocks(spec)};
  const Ring ring{spec.world, rank};
  for (int round = 0; round < spec.world - 1; ++round)
    b.exchange_copy(ring.next(), ring.block(rank - round), ring.prev(), ring.block(rank - 1 - round));
  return b.build();
}

// A rank sends (and, reduce-scatter, adds) every block but one; somewhere that is the smallest. The largest
// goes all the way. Reduce-scatter: rank r does not send block r, which starts at rank r+1; allgather: not
// block r+1, and block r starts at rank r.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Chunking blocks = rank_blocks(spec);
  const bool sums = spec.kind == Kind::kReduceScatter;
  std::int64_t num_blocks = 0, least = spec.count, crossing_edges = 0;
  for (int r = 0; r < spec.world; ++r) num_blocks += blocks.size(r) > 0 ? 1 : 0;
  Loads loads(spec);
  for (int r = 0; r < spec.world; ++r) {
    const Ring ring{spec.world, r};
    const std::int64_t kept = blocks.size(sums ? r : ring.next());
    loads.add(r, ring.next(), num_blocks - (kept > 0 ? 1 : 0), spec.count - kept);
    least = std::min(least, kept);
    crossing_edges += loads.crosses(r, ring.next()) ? 1 : 0;
  }
  // Block r goes along every edge but the one from r to r+1 (reduce-scatter) or from r-1 to r.
  std::int64_t crossings = 0;
  for (int r = 0; r < spec.world; ++r) {
    const Ring ring{spec.world, r};
    const bool missed = sums ? loads.crosses(r, ring.next()) : loads.crosses(ring.prev(), r);
    if (blocks.size(r) > 0) crossings = std::max(crossings, crossing_edges - (missed ? 1 : 0));
  }
  Price p{.rounds = spec.world - 1, .hops = spec.world - 1};
  loads.fill(p, spec.elem_bytes, p.rounds * blocks.max_size());
  if (sums) {
    p.reduce_bytes_per_rank = static_cast<double>((spec.count - least) * spec.elem_bytes);
    p.exposed_reduce_bytes = static_cast<double>(p.rounds * blocks.max_size() * spec.elem_bytes);
  }
  p.between.hops = crossings;
  p.flow = Flow::kMixed;
  return p;
}

}  // namespace

extern const Algorithm kRingReduceScatter{.name = "ring",
                                          .doc = "blocks summed along a ring, each ending at its rank",
                                          .kind = Kind::kReduceScatter,
                                          .applicable = any_spec,
                                          .build = build_reduce_scatter,
                                          .price = price,
                                          .fixed_order = false};
extern const Algorithm kRingAllgather{.name = "ring",
                                      .doc = "blocks passed on along a ring",
                                      .kind = Kind::kAllgather,
                                      .applicable = any_spec,
                                      .build = build_allgather,
                                      .price = price,
                                      .fixed_order = false};

}  // namespace trireme::collective
