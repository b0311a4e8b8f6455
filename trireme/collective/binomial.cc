// Binomial broadcast: the number of ranks that have the data doubles with every message time.
#include "trireme/collective/binomial.h"

#include "trireme/collective/algorithms.h"
#include "trireme/collective/builder.h"

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
  if (spec.count == 0) return {};
  const Binomial tree{spec.world, 0};
  const double sent = static_cast<double>(spec.bytes()) * tree.num_children(0);
  return {.rounds = tree.depth(), .bytes_per_rank = sent, .serial_bytes = sent};
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
