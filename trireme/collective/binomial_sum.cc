// Sums along the binomial tree of binomial.h: reduce sends towards the root, allreduce then broadcasts from
// it. The child with the smallest subtree is heard first.
#include "trireme/collective/algorithms.h"
#include "trireme/collective/binomial.h"
#include "trireme/collective/builder.h"

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

// The root has the most children, ceil(log2 P), and adds and (allreduce) sends once for each.
Price price(const ScheduleSpec& spec, bool both_ways) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Binomial tree{spec.world, 0};
  const auto n = static_cast<double>(spec.bytes());
  const int children = tree.num_children(0), depth = both_ways ? 2 * tree.depth() : tree.depth();
  return {.rounds = depth,
          .bytes_per_rank = both_ways ? n * children : n,
          .reduce_bytes_per_rank = n * children,
          .serial_bytes = n * std::max(children, depth)};
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
