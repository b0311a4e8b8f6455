// `trireme bench train`: its rows as JSON.
#include <gtest/gtest.h>

#include "trireme/cli/bench/train_report.h"

namespace trireme::cli::bench {
namespace {

TEST(BenchTrain, ARowAsJsonHasNoRatioWithoutTheOtherSide) {
  measure::TrainRow row;
  row.workload = &measure::workload_table()[0];
  row.dtype = "f32";
  row.ours = measure::summarise_rounds({10, 20, 12});
  EXPECT_TRUE(to_json(row, 2)["ratio"].is_null());
  row.eager = measure::summarise_rounds({30, 60, 36});
  row.compile = measure::summarise_rounds({15, 30, 18});
  const Json json = to_json(row, 2);
  EXPECT_EQ(json["ratio"], 1.5);
  EXPECT_EQ(json["torch_eager_ms"], 36.0);
  EXPECT_EQ(json["torch_compile_ms"], 18.0);
}

}  // namespace
}  // namespace trireme::cli::bench
