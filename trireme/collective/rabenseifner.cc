// Reduce-scatter by recursive halving, allgather by recursive doubling (Rabenseifner, "Optimization of
// collective reduction operations", 2004; Thakur, Rabenseifner and Gropp, 2005).
//
// The elements are cut in Q chunks, Q the largest power of two in P; a world that is no power of two is
// folded (fold.h). Halving: with the rank at distance Q/2, Q/4, ... 1 each keeps one half of what it had,
// sends the other and adds what it gets: rank v ends with chunk v. Doubling goes back the same way. 2 log2 Q
// rounds, and 2 (Q-1)/Q of the bytes.
#include <algorithm>

#include "trireme/collective/applicable.h"
#include "trireme/collective/fold.h"

namespace trireme::collective {
namespace {

// What number v keeps and gives away at distance `mask`: chunks [first, first + mask).
int kept_first(int v, int mask) { return v & ~(mask - 1); }
int given_first(int v, int mask) { return kept_first(v ^ mask, mask); }

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  const Fold fold{spec.world};
  ProgramBuilder b{spec, rank, fold.power};
  if (spec.count == 0) return b.build();
  if (fold.write_in(b, rank)) return b.build();
  const int me = fold.number_of(rank);
  std::uint32_t part = 0;
  for (int mask = fold.power / 2; mask > 0; mask /= 2, ++part) {
    const int other = me ^ mask, peer = fold.rank_of(other);
    const auto kept = b.range(kept_first(me, mask), mask);
    b.send(peer, part, b.range(given_first(me, mask), mask));
    b.recv_reduce(peer, part, b.scratch(kept.count), kept, /*message_is_left=*/other < me);
  }
  for (int mask = 1; mask < fold.power; mask *= 2, ++part) {
    const int peer = fold.rank_of(me ^ mask);
    b.send(peer, part, b.range(kept_first(me, mask), mask));
    b.recv(peer, part, b.range(given_first(me, mask), mask));
  }
  fold.write_out(b, rank);
  return b.build();
}

// With at least Q elements all messages exist and the longest chain is 2 log2 Q, and 2 more when folded; with
// fewer, numbers whose range is empty are left out of it. depth[v]: of the range that v keeps.
ChainDepth longest_chain(const Fold& fold, const Chunking& chunks, Loads& loads) {
  std::vector<ChainDepth> depth = fold.depth_in(loads, chunks.count), before;
  const auto exchange = [&](int mask, bool halving) {
    before = depth;
    for (int v = 0; v < fold.power; ++v) {
      const int from = fold.rank_of(v ^ mask), to = fold.rank_of(v);
      const std::int64_t elems = chunks.size(halving ? kept_first(v, mask) : given_first(v, mask), mask);
      ChainDepth& here = depth[static_cast<std::size_t>(v)];
      if (elems == 0) {
        if (halving) here = {};
        continue;
      }
      loads.add(from, to, 1, elems);
      here.follow(before[static_cast<std::size_t>(v ^ mask)].sent(elems, loads.crosses(from, to)));
    }
  };
  for (int mask = fold.power / 2; mask > 0; mask /= 2) exchange(mask, true);
  for (int mask = 1; mask < fold.power; mask *= 2) exchange(mask, false);
  return fold.depth_out(loads, chunks.count, depth);
}

// Number v adds what it keeps at every distance, and what was folded in.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Fold fold{spec.world};
  const Chunking chunks{spec.count, fold.power};
  std::int64_t most_added = 0;
  for (int v = 0; v < fold.power; ++v) {
    std::int64_t added = v < fold.extra ? spec.count : 0;
    for (int mask = 1; mask < fold.power; mask *= 2) added += chunks.size(kept_first(v, mask), mask);
    most_added = std::max(most_added, added);
  }
  Loads loads(spec);
  const ChainDepth longest = longest_chain(fold, chunks, loads);
  Price p{.rounds = longest.messages, .hops = longest.hops};
  loads.fill(p, spec.elem_bytes, longest.elems);
  p.reduce_bytes_per_rank = p.exposed_reduce_bytes = static_cast<double>(most_added * spec.elem_bytes);
  p.between.hops = longest.crossings;
  return p;
}

}  // namespace

extern const Algorithm kRabenseifner{
    .name = "rabenseifner",
    .doc = "reduce-scatter by halving, allgather by doubling: least bytes in logarithmic rounds",
    .kind = Kind::kAllreduce,
    .applicable = one_input_per_rank,
    .build = build,
    .price = price,
    .fixed_order = false};

}  // namespace trireme::collective
