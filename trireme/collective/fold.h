// Folding a world that is no power of two: the first 2 (P - Q) ranks pair up, Q the largest power of two in
// P. The even one of a pair gives its input to the odd one before the algorithm and gets the result after it.
#pragma once

#include <bit>

#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {

struct Fold {
  int world, power, extra;
  explicit Fold(int world_size)
      : world(world_size),
        power(static_cast<int>(std::bit_floor(static_cast<unsigned>(world_size)))),
        extra(world_size - power) {}

  int log2() const { return std::bit_width(static_cast<unsigned>(power)) - 1; }
  bool is_folded(int rank) const { return rank < 2 * extra; }
  bool stands_aside(int rank) const { return is_folded(rank) && rank % 2 == 0; }
  // Number among the Q that take part, and back.
  int number_of(int rank) const { return is_folded(rank) ? rank / 2 : rank - extra; }
  int rank_of(int number) const { return number < extra ? 2 * number + 1 : number + extra; }

  static constexpr std::uint32_t kInPart = 1U << 30, kOutPart = kInPart + 1;
  // True: this rank stands aside, and its program is written.
  bool write_in(ProgramBuilder& b, int rank) const {
    if (stands_aside(rank)) {
      b.send(rank + 1, kInPart, b.whole());
      b.recv(rank + 1, kOutPart, b.whole());
      return true;
    }
    if (is_folded(rank))
      b.recv_reduce(rank - 1, kInPart, b.scratch(b.chunks().count), b.whole(), /*message_is_left=*/true);
    return false;
  }
  void write_out(ProgramBuilder& b, int rank) const {
    if (is_folded(rank)) b.send(rank - 1, kOutPart, b.whole());
  }
  // For prices: the messages of both, and what precedes the algorithm for each number that takes part ...
  std::vector<ChainDepth> depth_in(Loads& loads, std::int64_t elems) const {
    std::vector<ChainDepth> depth(static_cast<std::size_t>(power));
    for (int v = 0; v < extra; ++v) {
      loads.add(2 * v, 2 * v + 1, 1, elems);
      loads.add(2 * v + 1, 2 * v, 1, elems);
      depth[static_cast<std::size_t>(v)] = ChainDepth{}.sent(elems, loads.crosses(2 * v, 2 * v + 1));
    }
    return depth;
  }
  // ... and what precedes the end, given `depth` after the algorithm.
  ChainDepth depth_out(const Loads& loads, std::int64_t elems, const std::vector<ChainDepth>& depth) const {
    ChainDepth longest;
    for (int v = 0; v < power; ++v) {
      const ChainDepth& d = depth[static_cast<std::size_t>(v)];
      longest.follow(v < extra ? d.sent(elems, loads.crosses(2 * v, 2 * v + 1)) : d);
    }
    return longest;
  }
};

}  // namespace trireme::collective
