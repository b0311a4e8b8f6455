// Binomial broadcast: the number of ranks that have the data doubles with every message time.
#include "trireme/collective/binomial.h"

#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, /*num_chunks=*/1};
  if (spec.count == 0) return b.build();
  const Binomial tree{spec.world, spec.root};
  if (rank != spec.root) b.recv(tree.parent(rank), 0, b.chunk(0));
  tree.for_children(rank, [&b](int child) { b.send(child, 0, b.chunk(0)); });
  return b.build();
}

// The root is the busiest: it sends ceil(log2 P) times.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const Binomial tree{spec.world, spec.root};
  Loads loads(spec);
  tree.for_edges([&](int parent, int child) { loads.add(parent, child, 1, spec.count); });
  Price p{.rounds = tree.depth(), .hops = tree.depth()};
  loads.fill(p, spec.elem_bytes, tree.depth() * spec.count);
  p.between.hops = tree.crossings(loads);
  return p;
}

}  // namespace

extern const Algorithm kBinomial{.name = "binomial",
                                 .doc = "broadcast along a binomial tree: logarithmic rounds",
                                 .kind = Kind::kBroadcast,
                                 .applicable = any_spec,
                                 .build = build,
                                 .price = price,
                                 .fixed_order = false};

}  // namespace trireme::collective
