// docs/collectives.md shows what the code does: its cost table is compared with one made here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "trireme/collective/schedule.h"

namespace trireme::collective {
namespace {

std::string cost_table() {
  std::string text =
      "| algorithm | collective | ranks | rounds | bytes sent | bytes added | 10 Gbit/s, 25 us |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const Algorithm& a : algorithm_table())
    for (const int world : {2, 4, 16, 64}) {
      ScheduleSpec spec;
      spec.kind = a.kind;
      spec.world = world;
      spec.count = a.kind == Kind::kBarrier ? 0 : (4 << 20) / 4;
      const Price p = a.price(spec);
      text +=
          fmt::format("| {} | {} | {} | {} | {:.2f} n | {:.2f} n | {} |\n", a.name, kind_name(a.kind), world,
                      p.rounds, spec.count == 0 ? 0 : p.bytes_per_rank / static_cast<double>(spec.bytes()),
                      spec.count == 0 ? 0 : p.reduce_bytes_per_rank / static_cast<double>(spec.bytes()),
                      format_duration(price_time(p, cost::LinkModel{}, cost::MachineModel{})));
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
