// Sums along the binomial tree of binomial.h: reduce sends towards the root, allreduce then broadcasts from
// it. The child with the smallest subtree is heard first.
#include "trireme/collective/applicable.h"
#include "trireme/collective/binomial.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

constexpr std::uint32_t kUp = 0, kDown = 1;

void write_up(ProgramBuilder& b, const Binomial& tree, int rank) {
  std::vector<int> children;
  tree.for_children(rank, [&](int child) { children.push_back(child); });
  std::vector<ProgramBuilder::Place> via;
  for (std::size_t i = 0; i < children.size() && i < 2; ++i) via.push_back(b.scratch(b.chunks().count));
  for (std::size_t i = children.size(); i-- > 0;)
    b.recv_reduce(children[i], kUp, via[i % 2], b.whole(), /*message_is_left=*/false);
  if (rank != tree.root) b.send(tree.parent(rank), kUp, b.whole());
}

Result<RankProgram> build_reduce(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, /*num_chunks=*/1};
  write_up(b, {spec.world, spec.root}, rank);
  return b.build();
}

Result<RankProgram> build_allreduce(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, /*num_chunks=*/1};
  const Binomial tree{spec.world, 0};
  write_up(b, tree, rank);
  if (rank != tree.root) b.recv(tree.parent(rank), kDown, b.whole());
  tree.for_children(rank, [&](int child) { b.send(child, kDown, b.whole()); });
  return b.build();
}

// The root has the most children, ceil(log2 P), and adds and (allreduce) sends once for each. The deepest
// subtree is heard last, so one addition per level of the tree is on the way to the sum.
Price price(const ScheduleSpec& spec, bool both_ways) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Binomial tree{spec.world, both_ways ? 0 : spec.root};
  Loads loads(spec);
  tree.for_edges([&](int parent, int child) {
    loads.add(child, parent, 1, spec.count);
    if (both_ways) loads.add(parent, child, 1, spec.count);
  });
  const auto n = static_cast<double>(spec.bytes());
  const int ways = both_ways ? 2 : 1;
  Price p{.rounds = ways * tree.depth(), .hops = ways * tree.depth()};
  p.reduce_bytes_per_rank = n * tree.num_children(tree.root);
  loads.fill(p, spec.elem_bytes, p.rounds * spec.count);
  p.exposed_reduce_bytes = n * tree.depth();
  // The root's links are busy one after the other: in on the way up, out on the way down.
  p.waiting_bytes = n * ways * std::max(tree.num_children(tree.root), tree.depth()) - p.serial_bytes;
  p.between.hops = ways * tree.crossings(loads);
  if (both_ways) p.flow = Flow::kThereAndBack;
  return p;
}
Price price_reduce(const ScheduleSpec& spec) { return price(spec, false); }
Price price_allreduce(const ScheduleSpec& spec) { return price(spec, true); }

}  // namespace

extern const Algorithm kBinomialReduce{.name = "binomial",
                                       .doc = "sums along a binomial tree to the root: logarithmic rounds",
                                       .kind = Kind::kReduce,
                                       .applicable = any_spec,
                                       .build = build_reduce,
                                       .price = price_reduce,
                                       .fixed_order = false};
extern const Algorithm kBinomialAllreduce{
    .name = "binomial",
    .doc = "sums along a binomial tree to rank 0, broadcast back: few messages, everything through one rank",
    .kind = Kind::kAllreduce,
    .applicable = one_input_per_rank,
    .build = build_allreduce,
    .price = price_allreduce,
    .fixed_order = false};

}  // namespace trireme::collective
