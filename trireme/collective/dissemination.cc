// Dissemination barrier (Hensgen, Finkel and Manber, 1988): in round k rank r signals r + 2^k and hears r -
// 2^k; after ceil(log2 P) rounds everybody has heard, directly or not, of everybody. Messages have no
// elements.
#include <bit>

#include "trireme/collective/algorithms.h"
#include "trireme/collective/builder.h"

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
  return {.rounds = std::bit_width(static_cast<unsigned>(spec.world - 1))};
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
