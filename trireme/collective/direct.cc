// Direct exchanges: every block goes from where it is to where it is wanted, in one message. One round, and
// no byte travels twice. Ranks serve their partners in turn, each beginning with another.
#include <algorithm>

#include "trireme/collective/algorithms.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/contract.h"

namespace trireme::collective {
namespace {

// The root has all blocks in place; the others one, as their only chunk.
ProgramBuilder rooted(const ScheduleSpec& spec, int rank) {
  const Chunking blocks = rank_blocks(spec);
  return {rank, rank == spec.root ? blocks : Chunking{blocks.size(rank), 1}};
}

Result<RankProgram> build_gather(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b = rooted(spec, rank);
  if (rank != spec.root) b.send(spec.root, 0, b.whole());
  for (int k = 1; k < spec.world && rank == spec.root; ++k) {
    const int q = (rank + k) % spec.world;
    b.recv(q, 0, b.chunk(q));
  }
  return b.build();
}

Result<RankProgram> build_scatter(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b = rooted(spec, rank);
  if (rank != spec.root) b.recv(spec.root, 0, b.whole());
  for (int k = 1; k < spec.world && rank == spec.root; ++k) {
    const int q = (rank + k) % spec.world;
    b.send(q, 0, b.chunk(q));
  }
  return b.build();
}

Price price_rooted(const ScheduleSpec& spec) {
  const Chunking blocks = rank_blocks(spec);
  std::int64_t most = 0;
  for (int q = 0; q < spec.world; ++q)
    if (q != spec.root) most = std::max(most, blocks.size(q));
  const std::int64_t moved = spec.count - blocks.size(spec.root);
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  return {.rounds = moved > 0 ? 1 : 0,
          .bytes_per_rank = bytes(spec.kind == Kind::kGather ? most : moved),
          .serial_bytes = bytes(moved)};
}

Result<RankProgram> build_all_to_all(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{rank, Chunking{0, 1}, /*num_partials=*/1};
  const auto out = [&](int q) { return b.stretch(1, send_offset(spec, rank, q), pair_count(spec, rank, q)); };
  const auto in = [&](int q) { return b.stretch(0, recv_offset(spec, q, rank), pair_count(spec, q, rank)); };
  for (int k = 1; k < spec.world; ++k) {
    const int to = (rank + k) % spec.world, from = (rank + spec.world - k) % spec.world;
    b.send(to, 0, out(to));
    b.recv(from, 0, in(from));
  }
  b.copy(in(rank), out(rank));
  return b.build();
}

Price price_all_to_all(const ScheduleSpec& spec) {
  std::int64_t sent = 0, received = 0;
  for (int r = 0; r < spec.world; ++r) {
    const std::int64_t own = pair_count(spec, r, r);
    sent = std::max(sent, caller_elems(spec, r, 1) - own);
    received = std::max(received, caller_elems(spec, r, 0) - own);
  }
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * spec.elem_bytes); };
  return {.rounds = sent > 0 ? 1 : 0,
          .bytes_per_rank = bytes(sent),
          .serial_bytes = bytes(std::max(sent, received))};
}

Result<RankProgram> build_neighbours(const ScheduleSpec& spec, int rank) {
  const auto out = edges_out(spec, rank), in = edges_in(spec, rank);
  ProgramBuilder b{rank, Chunking{0, 1}, static_cast<int>(out.size() + in.size())};
  ProgramBuilder::Place to_self;
  int buffer = 0;
  for (const Edge& e : out) {
    const auto block = b.stretch(++buffer, 0, e.count);
    if (e.to == rank)
      to_self = block;
    else
      b.send(e.to, 0, block);
  }
  for (const Edge& e : in) {
    const auto block = b.stretch(++buffer, 0, e.count);
    if (e.from == rank)
      b.copy(block, to_self);
    else
      b.recv(e.from, 0, block);
  }
  return b.build();
}

Price price_neighbours(const ScheduleSpec& spec) {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(spec.world)), received(sent);
  for (const Edge& e : spec.edges) {
    if (e.from == e.to) continue;
    sent[static_cast<std::size_t>(e.from)] += e.count;
    received[static_cast<std::size_t>(e.to)] += e.count;
  }
  const auto most = [&](const std::vector<std::int64_t>& v) {
    return static_cast<double>(*std::max_element(v.begin(), v.end()) * spec.elem_bytes);
  };
  return {.rounds = most(sent) > 0 ? 1 : 0,
          .bytes_per_rank = most(sent),
          .serial_bytes = std::max(most(sent), most(received))};
}

constexpr Algorithm row(Kind kind, const char* doc, Result<RankProgram> (*build)(const ScheduleSpec&, int),
                        Price (*price)(const ScheduleSpec&)) {
  return {.name = "direct",
          .doc = doc,
          .kind = kind,
          .applicable = any_spec,
          .build = build,
          .price = price,
          .fixed_order = false};
}

}  // namespace

extern const Algorithm kDirectGather =
    row(Kind::kGather, "every rank sends its block to the root", build_gather, price_rooted);
extern const Algorithm kDirectScatter =
    row(Kind::kScatter, "the root sends every rank its block", build_scatter, price_rooted);
extern const Algorithm kDirectAllToAll = row(
    Kind::kAllToAll, "every rank sends every other its block, in turn", build_all_to_all, price_all_to_all);
extern const Algorithm kDirectNeighbours =
    row(Kind::kNeighbours, "every rank sends along its edges", build_neighbours, price_neighbours);

}  // namespace trireme::collective
