// Reduce-scatter along the fixed tree: every rank sends every other its block, in one message, and adds what
// it gets for its own block in the order of the tree over ranks. One round, no byte travels twice; the bits
// are those of the fixed-tree allreduce.
#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/contract.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

using Place = ProgramBuilder::Place;

// Adds `inputs` up; the sum is where input `own` was, which keeps the sum of every subtree that it is in.
void add_tree(ProgramBuilder& b, std::vector<Place> inputs, int own) {
  for (std::size_t width = inputs.size(); width > 1; width = (width + 1) / 2) {
    for (std::size_t i = 0; i < width / 2; ++i) {
      const Place left = inputs[2 * i], right = inputs[2 * i + 1];
      const bool right_is_own = static_cast<std::size_t>(own) == 2 * i + 1;
      if (right_is_own)
        b.reduce_left(right, left);
      else
        b.reduce(left, right);
      inputs[i] = right_is_own ? right : left;
    }
    if (width % 2 == 1) inputs[width / 2] = inputs[width - 1];
    own /= 2;
  }
}

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{rank, rank_blocks(spec), /*num_partials=*/1};
  b.copy(b.chunk(rank), b.partial(0, rank));
  std::vector<Place> inputs(static_cast<std::size_t>(spec.world), b.chunk(rank));
  for (int k = 1; k < spec.world; ++k) {
    const int to = (rank + k) % spec.world, from = (rank + spec.world - k) % spec.world;
    b.send(to, 0, b.partial(0, to));
    Place& in = inputs[static_cast<std::size_t>(from)];
    in = b.scratch(b.chunk(rank).count);
    b.recv(from, 0, in);
  }
  add_tree(b, std::move(inputs), rank);
  return b.build();
}

Price price(const ScheduleSpec& spec) {
  const Chunking blocks = rank_blocks(spec);
  Price p{.flow = Flow::kMixed};
  Loads loads(spec);
  for (int from = 0; from < spec.world; ++from)
    for (int to = 0; to < spec.world; ++to) {
      if (from == to || blocks.size(to) == 0) continue;
      loads.add(from, to, 1, blocks.size(to));
      p.rounds = p.hops = 1;
      if (loads.crosses(from, to)) p.between.hops = 1;
    }
  loads.fill(p, spec.elem_bytes, 0);
  const auto block_bytes = static_cast<double>(blocks.max_size() * spec.elem_bytes);
  p.reduce_bytes_per_rank = static_cast<double>(spec.world - 1) * block_bytes;
  // Most is added while further messages come in; what comes last is added along the way to the root.
  for (int width = spec.world; width > 1; width = (width + 1) / 2) p.exposed_reduce_bytes += block_bytes;
  return p;
}

}  // namespace

extern const Algorithm kFixedTreeReduceScatter{
    .name = "fixed-tree",
    .doc = "every rank sends every other its block; each adds its own in the order of the fixed tree",
    .kind = Kind::kReduceScatter,
    .applicable = one_input_per_rank,
    .build = build,
    .price = price,
    .fixed_order = true};

}  // namespace trireme::collective
