// docs/collectives.md shows what the code does: its cost table is compared with one made here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "trireme/collective/schedule.h"

namespace trireme::collective {
namespace {

// 4 MiB; hierarchical: four ranks to a machine; a ring of neighbours, 4 MiB each way.
ScheduleSpec spec_of(const Algorithm& a, int world) {
  ScheduleSpec spec;
  const Kind kind = spec.kind = a.kind;
  spec.world = world;
  spec.count = kind == Kind::kBarrier ? 0 : (4 << 20) / 4;
  for (int r = 0; r < world && std::string_view(a.name) == "hierarchical"; ++r)
    spec.group_of.push_back(r / 4);
  if (kind != Kind::kNeighbours) return spec;
  for (int r = 0; r < world; ++r)
    for (const int q : {(r + 1) % world, (r + world - 1) % world}) spec.edges.push_back({r, q, spec.count});
  spec.count *= 2 * world;
  return spec;
}

std::string cost_table() {
  constexpr double kBytes = 4 << 20;
  std::string text =
      "| algorithm | collective | ranks | rounds | messages | sent | in a row | added | 10 Gbit/s, 25 us |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  for (const Algorithm& a : algorithm_table())
    for (const int world : {4, 16, 64}) {
      const ScheduleSpec spec = spec_of(a, world);
      EXPECT_TRUE(check_spec(spec).ok() && a.applicable(spec).ok()) << a.name;
      const Price p = a.price(spec);
      const std::string time = format_duration(price_time(p, cost::LinkModel{}, cost::MachineModel{}));
      text += fmt::format("| {} | {} | {} | {} | {} | {:.2f} n | {:.2f} n | {:.2f} n | {} |\n", a.name,
                          kind_name(a.kind), world, p.rounds, std::max(p.messages_sent, p.messages_received),
                          p.bytes_per_rank / kBytes, (p.serial_bytes + p.waiting_bytes) / kBytes,
                          p.reduce_bytes_per_rank / kBytes, time);
    }
  return text;
}

TEST(Docs, CostTableIsThatOfTheCode) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  std::ifstream file(std::string(root != nullptr ? root : ".") + "/docs/collectives.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(cost_table()), std::string::npos) << "docs/collectives.md should have:\n"
                                                              << cost_table();
}

}  // namespace
}  // namespace trireme::collective
