// Allgather in ceil(log2 P) rounds (Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for
// all-to-all communications in multiport message-passing systems", 1997). Before the round of distance d a
// rank r has the d blocks from r on, counted around the ring of blocks; it sends them, or the P - d that are
// missing in the last round, to r - d and gets as many from r + d.
//
// Blocks are sent from and received at their place in the result, so nothing is rotated at the end and no
// scratch is needed: a stretch that goes around the end of the result is two messages of one round.
#include <algorithm>
#include <array>
#include <bit>

#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/contract.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

struct Blocks {
  int first = 0, num = 0;
};
// Blocks [first, first + num) around the ring: up to the last block, and from block 0 on.
std::array<Blocks, 2> around(int first, int num, int world) {
  const int before = std::min(num, world - first);
  return {{{first, before}, {0, num - before}}};
}

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{rank, rank_blocks(spec)};
  const int world = spec.world;
  std::uint32_t part = 0;
  for (std::int64_t hop = 1; hop < world; hop *= 2) {
    const int d = static_cast<int>(hop), num = std::min(d, world - d);
    const int to = (rank + world - d) % world, from = (rank + d) % world;
    const auto out = around(rank, num, world), in = around(from, num, world);
    for (std::size_t i = 0; i < 2; ++i) {
      if (out[i].num > 0) b.send(to, part, b.range(out[i].first, out[i].num));
      if (in[i].num > 0) b.recv(from, part, b.range(in[i].first, in[i].num));
      ++part;
    }
  }
  return b.build();
}

// What has arrived at a rank after some rounds. What it sends waits for what it got of the same stretch of
// the result: of the blocks from its own on, or of those before its own.
struct Arrived {
  ChainDepth behind, before;
};

// In the last round fewer blocks are sent than are there: it waits only for the rounds that brought those.
Price price(const ScheduleSpec& spec) {
  const Chunking blocks = rank_blocks(spec);
  const int world = spec.world;
  Loads loads(spec);
  std::vector<std::vector<Arrived>> after(1, std::vector<Arrived>(static_cast<std::size_t>(world)));
  for (std::int64_t hop = 1; hop < world; hop *= 2) {
    const int d = static_cast<int>(hop), num = std::min(d, world - d);
    std::vector<Arrived> now = after.back();
    const std::vector<Arrived>& needed = after[std::bit_width(static_cast<unsigned>(num - 1))];
    for (int from = 0; from < world; ++from) {
      const int to = (from + world - d) % world;
      const auto sent = around(from, num, world);
      const Arrived& had = needed[static_cast<std::size_t>(from)];
      Arrived& has = now[static_cast<std::size_t>(to)];
      for (std::size_t i = 0; i < 2; ++i) {
        const std::int64_t elems = sent[i].num > 0 ? blocks.size(sent[i].first, sent[i].num) : 0;
        if (elems == 0) continue;
        loads.add(from, to, 1, elems);
        const ChainDepth depth = (i == 0 ? had.behind : had.before).sent(elems, loads.crosses(from, to));
        (sent[i].first > to ? has.behind : has.before).follow(depth);
      }
    }
    after.push_back(std::move(now));
  }
  ChainDepth longest;
  for (const Arrived& a : after.back()) {
    longest.follow(a.behind);
    longest.follow(a.before);
  }
  Price p{.rounds = longest.messages, .hops = longest.hops};
  loads.fill(p, spec.elem_bytes, longest.elems);
  p.between.hops = longest.crossings;
  p.flow = Flow::kMixed;
  return p;
}

}  // namespace

extern const Algorithm kBruck{.name = "bruck",
                              .doc = "blocks at distances 1, 2, 4...: logarithmic rounds",
                              .kind = Kind::kAllgather,
                              .applicable = any_spec,
                              .build = build,
                              .price = price,
                              .fixed_order = false};

}  // namespace trireme::collective
