// The two halves of the ring allreduce as collectives of their own, with a block per rank of any size:
// reduce-scatter adds block r along the ring and ends at rank r, allgather passes the blocks on.
#include <algorithm>

#include "trireme/collective/algorithms.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/contract.h"

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
// goes all the way.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Chunking blocks = rank_blocks(spec);
  std::int64_t least = spec.count;
  for (int r = 0; r < spec.world; ++r) least = std::min(least, blocks.size(r));
  const std::int64_t rounds = spec.world - 1;
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  return {.rounds = rounds,
          .bytes_per_rank = bytes(spec.count - least),
          .reduce_bytes_per_rank = spec.kind == Kind::kReduceScatter ? bytes(spec.count - least) : 0,
          .serial_bytes = bytes(std::max(spec.count - least, rounds * blocks.max_size()))};
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
