#include "trireme/io/report.h"

#include <gtest/gtest.h>

#include <limits>

#include "trireme/io/shards.h"

namespace trireme::io {
namespace {

CheckpointInfo example() {
  CheckpointInfo info;
  info.path = "run/checkpoints/step-000000469";
  info.is_generation = true;
  info.manifest.step = 469;
  info.manifest.files = {{shard_name(0, 1), 1700, std::string(64, 'a')}};
  info.manifest.tensors = {{"conv/weight", 0, {DType::kF32, {32, 1, 5, 5}}}, {"n", 0, {DType::kI64, {}}}};
  info.manifest.state = Json{{"samples", 60032}};
  info.generations = {469, 234};
  return info;
}

TEST(Report, InfoForPeople) {
  EXPECT_EQ(to_text(example()),
            "run/checkpoints/step-000000469\n"
            "  step     469\n"
            "  kept     469, 234\n"
            "  tensors  2 tensors, 801 values, 3.1 KiB\n"
            "  file     tensors-00001-of-00001.safetensors  1.7 KiB  sha256 aaaaaaaaaaaa...\n"
            "  state    samples = 60032\n"
            "\n"
            "  tensor       type              size\n"
            "  conv/weight  f32[32, 1, 5, 5]  3.1 KiB\n"
            "  n            i64[]             8 B\n");
}

TEST(Report, InfoForPrograms) {
  const Json json = to_json(example());
  EXPECT_EQ(json["step"], 469);
  EXPECT_EQ(json["generations"], (Json{469, 234}));
  EXPECT_EQ(json["num_elems"], 801);
  EXPECT_EQ(json["tensors"][0]["shape"], (Json{32, 1, 5, 5}));
  EXPECT_EQ(json["tensors"][0]["dtype"], "f32");
  EXPECT_EQ(json["tensors"][1]["file"], "tensors-00001-of-00001.safetensors");
  EXPECT_EQ(json["state"]["samples"], 60032);
  CheckpointInfo bare = example();
  bare.is_generation = false;
  bare.metadata = {{"format", "pt"}};
  EXPECT_TRUE(to_json(bare)["step"].is_null());
  EXPECT_EQ(to_json(bare)["metadata"]["format"], "pt");
  EXPECT_NE(to_text(bare).find("noted    format = pt"), std::string::npos);
}

TEST(Report, VerifiedNamesWhatIsWrong) {
  VerifiedCheckpoint good, damaged, odd, half;
  good.path = "c/step-000000001";
  good.step = 1;
  good.num_files = 2;
  good.num_tensors = 3;
  good.bytes = 2048;
  damaged = odd = half = good;
  damaged.damages = {"x is gone"};
  odd.non_finite = {{"w", {2, 1}}};
  half.step = -1;
  half.finished = false;
  half.notes = {"no manifest"};
  EXPECT_EQ(to_text({good, half}),
            "c/step-000000001 (step 1): ok (2 files, 3 tensors, 2.0 KiB read)\n"
            "c/step-000000001: not finished (2 files, 3 tensors, 2.0 KiB read)\n  note: no manifest\n");
  EXPECT_NE(to_text({damaged}).find("DAMAGED (2 files, 3 tensors, 2.0 KiB read)\n  x is gone\n"),
            std::string::npos);
  EXPECT_NE(to_text({odd}).find("tensor 'w' holds 2 NaN and 1 infinite values"), std::string::npos);
  EXPECT_EQ(to_json({good, half})["ok"], true);
  EXPECT_EQ(to_json({good, damaged})["ok"], false);
  EXPECT_EQ(to_json({odd})["checkpoints"][0]["non_finite"][0]["nans"], 2);
}

TEST(Report, DiffShowsOnlyWhatDiffers) {
  CheckpointDiff diff;
  diff.first_path = "a";
  diff.second_path = "b.safetensors";
  diff.first_step = 7;
  const TensorType type{DType::kF32, {4}};
  TensorDiff same, other, type_differs, missing;
  same.name = "same";
  same.first = same.second = type;
  other = type_differs = missing = same;
  other.name = "longer name";
  other.relation = TensorRelation::kDifferent;
  other.num_different = 3;
  other.max_abs = std::numeric_limits<double>::infinity();
  other.max_relative = 0.25;
  type_differs.relation = TensorRelation::kOtherType;
  type_differs.second = {DType::kF16, {4}};
  missing.relation = TensorRelation::kOnlyFirst;
  diff.tensors = {same};
  EXPECT_EQ(to_text(diff), "first   a (step 7)\nsecond  b.safetensors\nequal: all 1 tensors, bit for bit\n");
  EXPECT_EQ(to_json(diff)["equal"], true);
  diff.tensors = {same, other, type_differs, missing};
  EXPECT_EQ(to_text(diff),
            "first   a (step 7)\nsecond  b.safetensors\n1 of 4 tensors are equal, bit for bit\n"
            "  longer name  f32[4]  3 of 4 values differ, by at most inf (relative 0.25)\n"
            "  same         f32[4]  is f16[4] in the second\n"
            "  same         f32[4]  only in the first\n");
  const Json json = to_json(diff);
  EXPECT_EQ(json["equal"], false);
  EXPECT_EQ(json["tensors"][1]["max_abs"], "inf");
  EXPECT_EQ(json["tensors"][1]["num_different"], 3);
  EXPECT_FALSE(json["tensors"][3].contains("second"));
}

}  // namespace
}  // namespace trireme::io
