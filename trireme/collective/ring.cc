// Ring allreduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009): P-1 reduce-scatter
// rounds, then P-1 allgather rounds, one chunk per rank. Chunk c is summed along the ring from rank c: (((x_c
// + x_c+1) + ...) + x_c-1), so the bits depend on P; they are equal on every rank.
#include <algorithm>

#include "trireme/collective/algorithms.h"
#include "trireme/collective/builder.h"

namespace trireme::collective {
namespace {

int ring_chunk(const ScheduleSpec& spec, int c) { return ((c % spec.world) + spec.world) % spec.world; }

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, /*num_chunks=*/spec.world};
  b.reserve(static_cast<std::size_t>(spec.world - 1) * 4);
  const int next = (rank + 1) % spec.world, prev = (rank + spec.world - 1) % spec.world;
  for (int round = 0; round < spec.world - 1; ++round)
    b.exchange_reduce(next, ring_chunk(spec, rank - round), prev, ring_chunk(spec, rank - round - 1));
  for (int round = 0; round < spec.world - 1; ++round)
    b.exchange_copy(next, ring_chunk(spec, rank + 1 - round), prev, ring_chunk(spec, rank - round));
  return b.build();
}

// Rank r sends every chunk but r+1 and then every chunk but r+2, and adds every chunk but r: the busiest rank
// is the one that skips the smallest. A chunk without elements is not sent at all, but chunk 0 goes all the
// way round twice.
Price price(const ScheduleSpec& spec) {
  if (spec.world == 1 || spec.count == 0) return {};
  const std::int64_t small = spec.count / spec.world, num_small = spec.world - spec.count % spec.world;
  const std::int64_t skipped = num_small >= 2 ? 2 * small : 2 * small + 1;
  return {.rounds = 2 * (spec.world - 1),
          .bytes_per_rank = static_cast<double>((2 * spec.count - skipped) * spec.elem_bytes),
          .reduce_bytes_per_rank = static_cast<double>((spec.count - small) * spec.elem_bytes),
          .serial_bytes = static_cast<double>(2 * (spec.world - 1) *
                                              Chunking{spec.count, spec.world}.max_size() * spec.elem_bytes)};
}

}  // namespace

extern const Algorithm kRing{.name = "ring",
                             .doc = "reduce-scatter and allgather around a ring: least bytes, most rounds",
                             .kind = Kind::kAllreduce,
                             .applicable = one_input_per_rank,
                             .build = build,
                             .price = price,
                             .fixed_order = false};

}  // namespace trireme::collective
