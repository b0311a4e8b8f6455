// Butterfly (recursive doubling): in round k everybody swaps its whole sum with the rank whose number differs
// in bit k; after log2 Q rounds all have everything. A world that is no power of two is folded (fold.h),
// which takes a round before and one after. Sums are lower number + higher number on both sides: equal bits.
#include "trireme/collective/applicable.h"
#include "trireme/collective/fold.h"

namespace trireme::collective {
namespace {

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, /*num_chunks=*/1};
  if (spec.count == 0) return b.build();
  const Fold fold{spec.world};
  if (fold.write_in(b, rank)) return b.build();
  const int me = fold.number_of(rank);
  std::vector<ProgramBuilder::Place> via;
  for (int round = 0; round < fold.log2(); ++round) {
    if (round < 2) via.push_back(b.scratch(spec.count));
    const int other = me ^ (1 << round);
    b.swap_sum(fold.rank_of(other), static_cast<std::uint32_t>(round), b.whole(),
               via[static_cast<std::size_t>(round % 2)], /*message_is_left=*/other < me);
  }
  fold.write_out(b, rank);
  return b.build();
}

// log2 Q rounds, two more when folded: a folded rank that takes part adds once more, and sends the result
// once more.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Fold fold{spec.world};
  Loads loads(spec);
  const std::int64_t n_elems = spec.count;
  std::vector<ChainDepth> depth = fold.depth_in(loads, n_elems), before;
  for (int round = 0; round < fold.log2(); ++round) {
    before = depth;
    for (int v = 0; v < fold.power; ++v) {
      const int other = v ^ (1 << round), from = fold.rank_of(v), to = fold.rank_of(other);
      loads.add(from, to, 1, n_elems);
      // The sum waits for the other's to arrive, and for this one to be off the link.
      ChainDepth& here = depth[static_cast<std::size_t>(v)];
      here = here.done(n_elems);
      here.follow(before[static_cast<std::size_t>(other)].sent(n_elems, loads.crosses(from, to)));
    }
  }
  const ChainDepth longest = fold.depth_out(loads, n_elems, depth);
  const auto n = static_cast<double>(spec.bytes());
  const int sums = fold.log2() + (fold.extra > 0 ? 1 : 0);
  Price p{.rounds = longest.messages, .hops = longest.hops};
  p.reduce_bytes_per_rank = n * sums;
  loads.fill(p, spec.elem_bytes, longest.elems);
  p.exposed_reduce_bytes = n * sums;
  p.between.hops = longest.crossings;
  return p;
}

}  // namespace

extern const Algorithm kButterfly{
    .name = "butterfly",
    .doc = "recursive doubling: everybody swaps everything, least rounds for small sums",
    .kind = Kind::kAllreduce,
    .applicable = one_input_per_rank,
    .build = build,
    .price = price,
    .fixed_order = false};

}  // namespace trireme::collective
