// One-shot: everybody gets everybody's input and adds it up itself, in rank order: ((x0 + x1) + x2) + ...
//
// With peer memory the inputs are read where they lie: "ready" to all, reads, "done" to all; the result is
// gathered in scratch and put in place when all are done with this rank's input. Two rounds of empty
// messages. Without it every rank sends its input to all: one round. (P-1) n bytes either way: for small sums
// in few ranks.
#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

constexpr std::uint32_t kReady = 0, kDone = 1;

Result<RankProgram> build_reading(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, /*num_chunks=*/1};
  const auto mine = b.whole(), sum = b.scratch(spec.count), nothing = b.token();
  std::vector<ProgramBuilder::Place> tokens;
  for (int q = 0; q < spec.world; ++q) tokens.push_back(b.token());
  const auto token = [&](int q) { return tokens[static_cast<std::size_t>(q)]; };
  for (int k = 1; k < spec.world; ++k) b.notify((rank + k) % spec.world, kReady, nothing, b.token());
  for (int q = 0; q < spec.world; ++q)
    if (q != rank) b.hear(q, kReady, token(q));
  for (int q = 0; q < spec.world; ++q) {
    if (q == rank)
      q == 0 ? b.copy(sum, mine) : b.reduce(sum, mine);
    else
      q == 0 ? b.read_peer(q, sum, mine, token(q)) : b.read_reduce(q, sum, mine, token(q));
  }
  for (int k = 1; k < spec.world; ++k) {
    const int q = (rank + k) % spec.world;
    b.notify(q, kDone, nothing, token(q));
  }
  for (int q = 0; q < spec.world; ++q)
    if (q != rank) b.hear(q, kDone, mine);
  b.copy(mine, sum);
  return b.build();
}

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  if (spec.count > 0 && spec.world > 1 && spec.peer_memory) return build_reading(spec, rank);
  ProgramBuilder b{spec, rank, /*num_chunks=*/1};
  if (spec.count == 0 || spec.world == 1) return b.build();
  const auto mine = b.whole();
  for (int k = 1; k < spec.world; ++k) b.send((rank + k) % spec.world, 0, mine);
  // Received apart from being added, so that no recv waits for this rank's own sends.
  std::vector<ProgramBuilder::Place> inputs;
  for (int q = 0; q < spec.world; ++q) {
    inputs.push_back(q == rank ? mine : b.scratch(spec.count));
    if (q != rank) b.recv(q, 0, inputs.back());
  }
  for (int q = 1; q < rank; ++q) b.reduce(inputs[0], inputs[static_cast<std::size_t>(q)]);
  if (rank > 0) b.reduce_left(mine, inputs[0]);
  for (int q = rank + 1; q < spec.world; ++q) b.reduce(mine, inputs[static_cast<std::size_t>(q)]);
  return b.build();
}

// Inputs are added in rank order, for some rank after the last has come: no addition is hidden. Peer memory:
// all but rank 0 copy its input and add to that.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const double n = static_cast<double>(spec.bytes()), all = n * (spec.world - 1);
  Price p;
  Loads loads(spec);
  for (int r = 0; r < spec.world; ++r)
    for (int q = 0; q < spec.world; ++q)
      if (q != r) loads.add(r, q, spec.peer_memory ? 2 : 1, spec.peer_memory ? 0 : spec.count);
  loads.fill(p, spec.elem_bytes, 0);
  p.rounds = p.hops = spec.peer_memory ? 2 : 1;
  p.bytes_per_rank = p.reduce_bytes_per_rank = p.exposed_reduce_bytes = all;
  p.peer_copy_bytes = spec.peer_memory ? n : 0;
  p.between.hops = loads.has_machines() ? p.hops : 0;
  p.flow = Flow::kMixed;
  return p;
}

}  // namespace

extern const Algorithm kOneShot{
    .name = "one-shot",
    .doc = "everybody adds everybody's input itself: one round, most bytes; reads peers' memory if it can",
    .kind = Kind::kAllreduce,
    .applicable = one_input_per_rank,
    .build = build,
    .price = price,
    .fixed_order = false};

}  // namespace trireme::collective
