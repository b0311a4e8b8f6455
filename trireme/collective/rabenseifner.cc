// Reduce-scatter by recursive halving, allgather by recursive doubling (Rabenseifner, "Optimization of
// collective reduction operations", 2004; Thakur, Rabenseifner and Gropp, 2005).
//
// The elements are cut in Q chunks, Q the largest power of two in P; a world that is no power of two is
// folded (fold.h). Halving: with the rank at distance Q/2, Q/4, ... 1 each keeps one half of what it had,
// sends the other and adds what it gets: rank v ends with chunk v. Doubling goes back the same way. 2 log2 Q
// rounds, and 2 (Q-1)/Q of the bytes.
#include <algorithm>

#include "trireme/collective/algorithms.h"
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

// Longest chain of messages. With at least Q elements all messages exist and it is 2 log2 Q, and 2 more when
// folded; with fewer, numbers whose range is empty are left out of it. depth[v]: of the range that v keeps.
std::int64_t count_rounds(const Fold& fold, const Chunking& chunks) {
  std::vector<std::int64_t> depth(static_cast<std::size_t>(fold.power)), before;
  for (int v = 0; v < fold.extra; ++v) depth[static_cast<std::size_t>(v)] = 1;
  const auto exchange = [&](int mask, bool halving) {
    before = depth;
    for (int v = 0; v < fold.power; ++v) {
      const auto me = static_cast<std::size_t>(v), other = static_cast<std::size_t>(v ^ mask);
      const bool has_kept = chunks.size(kept_first(v, mask), mask) > 0;
      if (halving)
        depth[me] = has_kept ? std::max(before[me], before[other] + 1) : 0;
      else if (chunks.size(given_first(v, mask), mask) > 0)
        depth[me] = std::max(before[me], before[other] + 1);
    }
  };
  for (int mask = fold.power / 2; mask > 0; mask /= 2) exchange(mask, true);
  for (int mask = 1; mask < fold.power; mask *= 2) exchange(mask, false);
  std::int64_t rounds = 0;
  for (int v = 0; v < fold.power; ++v)
    rounds = std::max(rounds, depth[static_cast<std::size_t>(v)] + (v < fold.extra ? 1 : 0));
  return rounds;
}

// Number v gives away every chunk but v while halving, and what it has kept at each distance while doubling.
// Chunk 0 is the largest.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Fold fold{spec.world};
  const Chunking chunks{spec.count, fold.power};
  const std::int64_t n = spec.count;
  std::int64_t sent = 0, added = 0, path = 0;
  for (int v = 0; v < fold.power; ++v) {
    std::int64_t doubling = 0;
    for (int mask = 1; mask < fold.power; mask *= 2) doubling += chunks.size(kept_first(v, mask), mask);
    std::int64_t halving_added = 0;
    for (int mask = fold.power / 2; mask > 0; mask /= 2)
      halving_added += chunks.size(kept_first(v, mask), mask);
    const std::int64_t folded = v < fold.extra ? n : 0;
    sent = std::max(sent, n - chunks.size(v) + doubling + folded);
    added = std::max(added, halving_added + folded);
  }
  for (int mask = 1; mask < fold.power; mask *= 2) path += 2 * chunks.size(0, mask);
  if (fold.extra > 0) path += 2 * n;
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  return {.rounds = count_rounds(fold, chunks),
          .bytes_per_rank = bytes(sent),
          .reduce_bytes_per_rank = bytes(added),
          .serial_bytes = bytes(std::max(path, sent))};
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
