// The README's counts are those of the tables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "trireme/collective/schedule.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/op.h"

namespace trireme::cli {
namespace {

TEST(Readme, CountsWhatTheTablesHave) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  std::ifstream in(std::string(root ? root : ".") + "/README.md");
  ASSERT_TRUE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  for (const std::string& want : {fmt::format("| ops | {}: ", op::op_table().size()),
                                  fmt::format(", {} passes (", graph::pass_table().size()),
                                  fmt::format(", {} algorithms as", collective::algorithm_table().size())})
    EXPECT_NE(text.str().find(want), std::string::npos) << "README.md should say '" << want << "'";
}

}  // namespace
}  // namespace trireme::cli
