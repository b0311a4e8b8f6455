// Ring allreduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009): P-1 reduce-scatter
// rounds, then P-1 allgather rounds, one chunk per rank. Chunk c is summed along the ring from rank c: (((x_c
// + x_c+1) + ...) + x_c-1), so the bits depend on P; they are equal on every rank.
#include <algorithm>

#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

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
// way round twice. Chunk c crosses every edge of the ring twice, but once the two before rank c.
Price price(const ScheduleSpec& spec) {
  if (spec.world == 1 || spec.count == 0) return {};
  const Chunking chunks{spec.count, spec.world};
  const std::int64_t num_sent = std::min<std::int64_t>(spec.count, spec.world),
                     small = spec.count / spec.world;
  const auto edge_crosses = [&](const Loads& loads, int r) {
    return loads.crosses(ring_chunk(spec, r), ring_chunk(spec, r + 1)) ? 1 : 0;
  };
  Loads loads(spec);
  std::int64_t crossing_edges = 0, fewest_missed = 2;
  for (int r = 0; r < spec.world; ++r) {
    const std::int64_t a = chunks.size(ring_chunk(spec, r + 1)), b = chunks.size(ring_chunk(spec, r + 2));
    loads.add(r, ring_chunk(spec, r + 1), 2 * num_sent - (a > 0 ? 1 : 0) - (b > 0 ? 1 : 0),
              2 * spec.count - a - b);
    crossing_edges += edge_crosses(loads, r);
    if (chunks.size(r) > 0)
      fewest_missed =
          std::min<std::int64_t>(fewest_missed, edge_crosses(loads, r - 1) + edge_crosses(loads, r - 2));
  }
  Price p{.rounds = 2 * (spec.world - 1), .hops = 2 * (spec.world - 1)};
  loads.fill(p, spec.elem_bytes, p.rounds * chunks.max_size());
  p.reduce_bytes_per_rank = static_cast<double>((spec.count - small) * spec.elem_bytes);
  p.exposed_reduce_bytes = static_cast<double>((spec.world - 1) * chunks.max_size() * spec.elem_bytes);
  p.between.hops = crossing_edges > 0 ? 2 * crossing_edges - fewest_missed : 0;
  p.flow = Flow::kMixed;
  return p;
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
