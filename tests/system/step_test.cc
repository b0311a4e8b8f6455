// `inspect step`, as a user meets it.
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

TEST(InspectStep, TellsWhatAWorkerDoesWhenAndThatItIsProved) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "step", "lenet", "--workers", "3", "--svg", "step.svg"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* text :
       {"compute shard 0", "sum bucket 0", "update bucket 0", "vote", "A step takes", "Proved"})
    EXPECT_NE(ran.out.find(text), std::string::npos) << text << " is not in:\n" << ran.out;
  EXPECT_EQ(w.read("step.svg").find("<svg "), 0U);
}

TEST(InspectStep, GivesTheActionsWithTheirDependenciesAsJson) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "step", "lenet", "--workers", "3", "--rank", "2", "--json"});
  const Result<Json> parsed = parse_json(ran.out, "standard output");
  ASSERT_TRUE(parsed.ok()) << ran.out << ran.err;
  EXPECT_EQ(parsed->value("rank", -1), 2);
  EXPECT_TRUE(parsed->value("verified", false));
  EXPECT_GT((*parsed)["actions"].size(), 4U);
  EXPECT_NE(w.run({"inspect", "step", "lenet", "--workers", "3", "--rank", "3"}).code, 0);
}

}  // namespace
}  // namespace trireme::system_test
