// docs/passes.md holds the rows of the pass table.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "trireme/graph/pass/passes.h"

namespace trireme::graph {
namespace {

TEST(PassDocs, HaveTheRowsOfTheTableInItsOrder) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  std::ifstream in(std::string(root ? root : ".") + "/docs/passes.md");
  ASSERT_TRUE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  std::string table = "| pass | exactness | what it does |\n|---|---|---|\n";
  for (const PassRow& row : pass_table())
    table += fmt::format("| {} | {} | {} |\n", row.name,
                         row.exactness == Exactness::kExact ? "exact" : "tolerant", row.doc);
  EXPECT_NE(text.str().find(table + "\n"), std::string::npos) << "docs/passes.md should have this table:\n"
                                                              << table;
}

}  // namespace
}  // namespace trireme::graph
