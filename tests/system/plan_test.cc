// `trireme plan` as a user calls it: its table, its JSON, and mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;

TEST(PlanCommand, ExplainsTheChoicePerTensor) {
  const Workspace w;
  const Ran ran = w.run({"plan", "mnist-mlp", "--workers", "4", "--gbit", "0.1", "--latency-us", "50",
                         "--batch", "128", "--set", "parallel.codec=auto"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* words : {"tensor", "gradient", "travels as", "fc1/weight", "factors", "fp16", "saves ",
                            "too short to encode", "all tensors", "predicted step ", "chosen: "})
    EXPECT_THAT(ran.out, HasSubstr(words));
}

TEST(PlanCommand, AsJsonHasThePricesOfEveryCandidate) {
  const Workspace w;
  const Ran ran = w.run({"plan", "mnist-mlp", "--workers", "4", "--link", "100gbit,5us", "--json", "--set",
                         "parallel.codec=auto", "parallel.codec_tolerance=feedback"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result<Json> json = parse_json(ran.out, "standard output");
  ASSERT_TRUE(json.ok()) << ran.out;
  EXPECT_EQ((*json)["workers"], 4);
  EXPECT_EQ((*json)["asked"], "auto");
  EXPECT_GE((*json)["choices"].size(), 9U);
  for (const Json& t : (*json)["tensors"]) {
    EXPECT_TRUE(t.contains("why") && t.contains("bytes_sent") && t.contains("dense_bytes")) << t.dump();
    EXPECT_FALSE(t["candidates"].empty());
  }
  const Ran servers = w.run({"plan", "mnist-mlp", "--workers", "4", "--servers", "2", "--gbit", "1", "--set",
                             "parallel.agreement=ssp", "parallel.codec=topk"});
  ASSERT_EQ(servers.code, 0) << servers.err;
  EXPECT_THAT(servers.out, HasSubstr("topk"));
}

TEST(PlanCommand, MistakesGetAClearMessageAndExitCodeTwo) {
  const Workspace w;
  const std::pair<std::vector<std::string>, const char*> mistakes[] = {
      {{"plan", "no-such-model"}, "no model is called 'no-such-model'"},
      {{"plan", "mnist-mlp", "--workers", "0"}, "--workers"},
      {{"plan", "mnist-mlp", "--link", "fast"}, "not a bandwidth"},
      {{"plan", "mnist-mlp", "--link", "1gbit", "--gbit", "1"}, "--link and --gbit"},
      {{"plan", "mnist-mlp", "--latency-us", "5"}, "--latency-us needs --gbit"},
      {{"plan", "mnist-mlp", "--workers", "2", "--servers", "1"}, "parallel.servers"},
      {{"plan", "mnist-mlp", "--set", "parallel.codec=zip"}, "parallel.codec"},
  };
  for (const auto& [command, words] : mistakes) {
    const Ran ran = w.run(command);
    EXPECT_EQ(ran.code, 2) << words << "\n" << ran.out << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words));
  }
}

}  // namespace
}  // namespace trireme::system_test
