// Dissemination barrier (Hensgen, Finkel and Manber, 1988): in round k rank r signals r + 2^k and hears r -
// 2^k; after ceil(log2 P) rounds everybody has heard, directly or not, of everybody. Messages have no
// elements.
#include <bit>

#include "trireme/collective/applicable.h"
#include "trireme/collective/builder.h"
#include "trireme/collective/loads.h"

namespace trireme::collective {
namespace {

Result<RankProgram> build(const ScheduleSpec& spec, int rank) {
  ProgramBuilder b{spec, rank, /*num_chunks=*/1};
  std::uint32_t round = 0;
  for (std::int64_t hop = 1; hop < spec.world; hop *= 2) {
    const int distance = static_cast<int>(hop);
    b.signal((rank + distance) % spec.world, (rank - distance + spec.world) % spec.world, round++);
  }
  return b.build();
}

Price price(const ScheduleSpec& spec) {
  Loads loads(spec);
  std::vector<ChainDepth> depth(static_cast<std::size_t>(spec.world)), before;
  for (std::int64_t hop = 1; hop < spec.world; hop *= 2) {
    before = depth;
    for (int r = 0; r < spec.world; ++r) {
      const int to = (r + static_cast<int>(hop)) % spec.world;
      loads.add(r, to, 1, 0);
      depth[static_cast<std::size_t>(to)].follow(
          before[static_cast<std::size_t>(r)].sent(0, loads.crosses(r, to)));
    }
  }
  Price p;
  p.rounds = p.hops = std::bit_width(static_cast<unsigned>(spec.world - 1));
  loads.fill(p, spec.elem_bytes, 0);
  for (const ChainDepth& d : depth) p.between.hops = std::max(p.between.hops, d.crossings);
  p.flow = Flow::kMixed;
  return p;
}

}  // namespace

extern const Algorithm kDissemination{.name = "dissemination",
                                      .doc = "barrier by empty messages at distances 1, 2, 4...",
                                      .kind = Kind::kBarrier,
                                      .applicable = any_spec,
                                      .build = build,
                                      .price = price,
                                      .fixed_order = false};

}  // namespace trireme::collective
