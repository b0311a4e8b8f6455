// Counts what programs do: the closed forms of the prices are tested against it.
#include <algorithm>

#include "trireme/collective/chains.h"

namespace trireme::collective {
Price measure_programs(std::span<const RankProgram> programs, std::int32_t elem_bytes,
                       std::span<const std::int32_t> group_of) {
  Loads loads(static_cast<int>(programs.size()), group_of);
  std::int64_t most_out = 0, most_added = 0, most_copied = 0;
  for (const RankProgram& p : programs) {
    std::int64_t out = 0, added = 0, copied = 0;
    for (const Step& s : p.steps) {
      if (s.kind == StepKind::kSend) loads.add(p.rank, s.peer, 1, s.count);
      if (s.kind == StepKind::kSend || is_read(s.kind)) out += s.count;
      if (is_reduce(s.kind)) added += s.count;
      if (s.kind == StepKind::kReadPeer) copied += s.count;
    }
    most_out = std::max(most_out, out);
    most_added = std::max(most_added, added);
    most_copied = std::max(most_copied, copied);
  }
  ChainDepth longest;
  for (const auto& rank : chain_depths(programs, loads))
    for (const ChainDepth& d : rank) longest.follow(d);
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * elem_bytes); };
  Price price;
  loads.fill(price, elem_bytes, longest.elems);
  price.rounds = longest.messages;
  price.hops = longest.hops;
  price.bytes_per_rank = bytes(most_out);
  price.reduce_bytes_per_rank = bytes(most_added);
  price.peer_copy_bytes = bytes(most_copied);
  price.between.hops = longest.crossings;
  return price;
}

}  // namespace trireme::collective
