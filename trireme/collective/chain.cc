// Chain pipeline: k segments are added from rank 0 to rank P-1, then the results go back, one segment at a
// time on every link. 2 (P + k - 2) rounds of n / k bytes (the pipeline of Ben-Nun and Hoefler, "Demystifying
// Parallel and Distributed Deep Learning", 2018, with both ways): the way back begins when all has arrived,
// so that no rank serves both directions at once.
#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

int num_segments(const ScheduleSpec& spec) {
  if (spec.count == 0) return 1;
  const std::int64_t size = std::max<std::int64_t>(spec.segment_bytes, spec.elem_bytes);
  const std::int64_t fit = (static_cast<std::int64_t>(spec.bytes()) + size - 1) / size;
  return static_cast<int>(std::clamp<std::int64_t>(fit, 1, std::min<std::int64_t>(spec.count, 1 << 16)));
}

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  const int k = num_segments(spec);
  ProgramBuilder b{spec, rank, k};
  const int last = spec.world - 1;
  if (last == 0 || spec.count == 0) return b.build();
  const ProgramBuilder::Place via[2] = {b.scratch(rank > 0 ? b.chunks().max_size() : 0),
                                        b.scratch(rank > 0 && k > 1 ? b.chunks().max_size() : 0)};
  for (int s = 0; s < k; ++s) {
    const auto part = static_cast<std::uint32_t>(s);
    if (rank > 0) b.recv_reduce(rank - 1, part, via[s % 2], b.chunk(s), /*message_is_left=*/true);
    if (rank < last) b.send_in_turn(rank + 1, part, b.chunk(s));
  }
  for (int s = 0; s < k; ++s) {
    const auto part = static_cast<std::uint32_t>(s);
    if (rank < last) b.recv(rank + 1, part, b.chunk(s));
    if (rank > 0) b.send_in_turn(rank - 1, part, b.chunk(s));
    if (rank == last && s == 0) b.wait_for(b.chunk(k - 1));
  }
  return b.build();
}

// One addition of a segment per rank on the way there; the others are done while the next segment comes in.
Price price(const ScheduleSpec& spec) {
  if (spec.count == 0 || spec.world == 1) return {};
  const int k = num_segments(spec);
  Loads loads(spec);
  std::int64_t crossings = 0;
  for (int r = 0; r + 1 < spec.world; ++r) {
    loads.add(r, r + 1, k, spec.count);
    loads.add(r + 1, r, k, spec.count);
    crossings += loads.crosses(r, r + 1) ? 1 : 0;
  }
  const std::int64_t segment = Chunking{spec.count, k}.max_size();
  Price p{.rounds = 2 * (spec.world + std::int64_t{k} - 2), .hops = 2 * (spec.world - 1)};
  p.reduce_bytes_per_rank = static_cast<double>(spec.bytes());
  loads.fill(p, spec.elem_bytes, p.rounds * segment);
  p.exposed_reduce_bytes = static_cast<double>((spec.world - 1) * segment * spec.elem_bytes);
  p.between.hops = 2 * crossings;
  p.flow = Flow::kMixed;
  return p;
}

}  // namespace

extern const Algorithm kChain{.name = "chain",
                              .doc = "a pipeline of segments along the ranks and back",
                              .kind = Kind::kAllreduce,
                              .applicable = one_input_per_rank,
                              .build = build,
                              .price = price,
                              .fixed_order = false};

}  // namespace trireme::collective
