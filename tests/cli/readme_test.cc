// docs/features.md counts what the tables hold, and README.md keeps to one screen of features.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "trireme/agree/agree.h"
#include "trireme/collective/schedule.h"
#include "trireme/comm/host_ops.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/op/op.h"

namespace trireme::cli {
namespace {

std::string read_page(const std::string& name) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  std::ifstream in(std::string(root ? root : ".") + "/" + name);
  EXPECT_TRUE(in.good()) << name;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Host ops have no kernel; those of op/comm are carried out by a Group, the others by nobody yet.
bool is_only_described(const op::OpDef& def) { return def.has(op::kHostOp) && !comm::has_host_op(def.name); }

TEST(Readme, FeaturesCountWhatTheTablesHave) {
  const std::string text = read_page("docs/features.md");
  std::vector<std::string> described;
  for (const op::OpDef* def : op::op_table())
    if (is_only_described(*def)) described.push_back(fmt::format("`{}`", def->name));
  std::sort(described.begin(), described.end());
  for (const std::string& want :
       {fmt::format("| ops | {} that run: ", op::op_table().size() - described.size()),
        fmt::format("{} more are only described, nothing carries them out yet: {} |", described.size(),
                    fmt::join(described, ", ")),
        fmt::format(", {} passes (", graph::pass_table().size()),
        fmt::format(", {} algorithms as", collective::algorithm_table().size())})
    EXPECT_NE(text.find(want), std::string::npos) << "docs/features.md should say '" << want << "'";
}

TEST(Readme, CountsTheRules) {
  const std::string want = fmt::format("{} agreement rules", agree::agreement_table().size());
  EXPECT_NE(read_page("README.md").find(want), std::string::npos) << "README.md should say '" << want << "'";
}

TEST(Readme, HasOneFigureAndOneTableOfAtMostTwelveRows) {
  std::istringstream lines(read_page("README.md"));
  int rows = 0, tables = 0, figures = 0;
  bool in_table = false;
  for (std::string line; std::getline(lines, line);) {
    const bool row = line.starts_with("|");
    tables += row && !in_table;
    rows += row;
    figures += line.starts_with("![");
    in_table = row;
  }
  EXPECT_EQ(tables, 1);
  EXPECT_LE(rows, 2 + 12);
  EXPECT_EQ(figures, 1);
}

}  // namespace
}  // namespace trireme::cli
