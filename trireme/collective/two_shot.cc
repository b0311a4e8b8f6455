// Two-shot: rank r adds chunk r of everybody, then everybody takes the chunks from their owners.
//
// With peer memory: "ready" to all, chunk r read and added from all; "summed" to all, the other chunks read;
// "done" to all. Three rounds of empty messages. Without it: every chunk is sent to its owner, and the owner
// sends the sum to all: two rounds. About 2 n bytes either way, as a ring, in constantly many rounds.
#include <algorithm>

#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

constexpr std::uint32_t kReady = 0, kSummed = 1, kDone = 2;

Result<RankProgram> build_reading(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, spec.world};
  const auto nothing = b.token();
  std::vector<ProgramBuilder::Place> ready(static_cast<std::size_t>(spec.world)), summed(ready);
  const auto peer = [&](int k) { return (rank + k) % spec.world; };
  const auto of = [](auto& tokens, int q) -> auto& { return tokens[static_cast<std::size_t>(q)]; };
  for (int k = 1; k < spec.world; ++k) b.notify(peer(k), kReady, nothing, b.token());
  for (int k = 1; k < spec.world; ++k) b.hear(peer(k), kReady, of(ready, peer(k)) = b.token());
  for (int k = 1; k < spec.world; ++k)
    b.read_reduce(peer(k), b.chunk(rank), b.chunk(rank), of(ready, peer(k)));
  for (int k = 1; k < spec.world; ++k) b.notify(peer(k), kSummed, b.chunk(rank), of(ready, peer(k)));
  for (int k = 1; k < spec.world; ++k) b.hear(peer(k), kSummed, of(summed, peer(k)) = b.token());
  for (int k = 1; k < spec.world; ++k)
    b.read_peer(peer(k), b.chunk(peer(k)), b.chunk(peer(k)), of(summed, peer(k)));
  for (int k = 1; k < spec.world; ++k) b.notify(peer(k), kDone, nothing, of(summed, peer(k)));
  for (int k = 1; k < spec.world; ++k) b.hear(peer(k), kDone, b.token());
  return b.build();
}

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  if (spec.count > 0 && spec.world > 1 && spec.peer_memory) return build_reading(spec, rank);
  ProgramBuilder b{spec, rank, spec.world};
  if (spec.world == 1) return b.build();
  const auto peer = [&](int k) { return (rank + k) % spec.world; };
  const std::int64_t own = b.chunks().size(rank);
  const ProgramBuilder::Place via[2] = {b.scratch(own), b.scratch(spec.world > 2 ? own : 0)};
  for (int k = 1; k < spec.world; ++k) b.send(peer(k), kReady, b.chunk(peer(k)));
  for (int k = 1; k < spec.world; ++k)
    b.recv_reduce(peer(spec.world - k), kReady, via[(k - 1) % 2], b.chunk(rank), /*message_is_left=*/false);
  for (int k = 1; k < spec.world; ++k) b.recv(peer(spec.world - k), kSummed, b.chunk(peer(spec.world - k)));
  for (int k = 1; k < spec.world; ++k) b.send(peer(k), kSummed, b.chunk(rank));
  return b.build();
}

// Rank 0 has the largest chunk: it sends that to all, and the rest once. All but the last of the inputs are
// added while others come in. Peer memory: three empty messages to everybody; the others' chunks are copied.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Chunking chunks{spec.count, spec.world};
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  const std::int64_t own = chunks.max_size(), others = spec.world - 1,
                     moved = others * own + spec.count - own;
  Price p;
  Loads loads(spec);
  for (int r = 0; r < spec.world; ++r)
    for (int q = 0; q < spec.world; ++q) {
      if (q == r) continue;
      const std::int64_t to = chunks.size(q), of = chunks.size(r);
      spec.peer_memory ? loads.add(r, q, 3, 0)
                       : loads.add(r, q, (to > 0 ? 1 : 0) + (of > 0 ? 1 : 0), to + of);
    }
  loads.fill(p, spec.elem_bytes, spec.peer_memory ? 0 : 2 * own);
  p.rounds = p.hops = spec.peer_memory ? 3 : 2;
  p.bytes_per_rank = bytes(moved);
  p.reduce_bytes_per_rank = bytes(others * own);
  p.exposed_reduce_bytes = bytes(spec.peer_memory ? others * own : own);
  p.peer_copy_bytes = spec.peer_memory ? bytes(spec.count - chunks.size(spec.world - 1)) : 0;
  p.between.hops = loads.has_machines() ? p.hops : 0;
  p.flow = Flow::kMixed;
  return p;
}

}  // namespace

extern const Algorithm kTwoShot{
    .name = "two-shot",
    .doc = "every chunk added by its owner, then taken by all: two rounds; reads peers' memory if it can",
    .kind = Kind::kAllreduce,
    .applicable = one_input_per_rank,
    .build = build,
    .price = price,
    .fixed_order = false};

}  // namespace trireme::collective
