// Direct exchanges: every block goes from where it is to where it is wanted, in one message. One round, and
// no byte travels twice. Ranks serve their partners in turn, each beginning with another.
#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/contract.h"
#include "trireme/collective/loads.h"

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

// Every message is on its own: one round, and what comes into one rank, or out of it, goes in turn.
class DirectPrice {
 public:
  explicit DirectPrice(const ScheduleSpec& spec) : spec_(spec), loads_(spec) {}
  void add(int from, int to, std::int64_t elems) {
    if (from == to || elems == 0) return;
    loads_.add(from, to, 1, elems);
    any_ = true;
    crosses_ = crosses_ || loads_.crosses(from, to);
  }
  Price price() const {
    Price p;
    p.rounds = p.hops = any_ ? 1 : 0;
    loads_.fill(p, spec_.elem_bytes, 0);
    p.between.hops = crosses_ ? 1 : 0;
    p.flow = Flow::kMixed;
    return p;
  }

 private:
  const ScheduleSpec& spec_;
  Loads loads_;
  bool any_ = false, crosses_ = false;
};

Price price_rooted(const ScheduleSpec& spec) {
  const Chunking blocks = rank_blocks(spec);
  DirectPrice direct(spec);
  for (int q = 0; q < spec.world; ++q)
    spec.kind == Kind::kGather ? direct.add(q, spec.root, blocks.size(q))
                               : direct.add(spec.root, q, blocks.size(q));
  return direct.price();
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
  DirectPrice direct(spec);
  for (int from = 0; from < spec.world; ++from)
    for (int to = 0; to < spec.world; ++to) direct.add(from, to, pair_count(spec, from, to));
  return direct.price();
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
  DirectPrice direct(spec);
  for (const Edge& e : spec.edges) direct.add(e.from, e.to, e.count);
  return direct.price();
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
