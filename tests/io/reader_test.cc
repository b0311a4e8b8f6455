#include "trireme/io/reader.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "tests/io/machine.h"
#include "trireme/base/hash.h"

namespace trireme::io {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr const char* kDir = "run/checkpoints";

Checkpoint checkpoint_of(std::int64_t step, float value = 1) {
  Checkpoint c;
  c.step = step;
  c.state = Json{{"samples", step * 128}};
  for (const char* name : {"a", "b", "c"}) {
    const std::vector<float> values(20, value + static_cast<float>(step));
    c.tensors.emplace_back(name, Tensor::from<float>(values, {4, 5}));
  }
  return c;
}

Task<void> save_into(Runtime& rt, std::string dir, Checkpoint c) {
  CheckpointOptions options;
  options.max_shard_bytes = 170;  // two tensors
  const Status saved = co_await save_checkpoint(rt, dir, c, options);
  EXPECT_TRUE(saved.ok()) << saved.to_string();
}

void save(Machine& machine, const Checkpoint& c, const std::string& dir = kDir) {
  machine.run([&](Runtime& rt) { return save_into(rt, dir, c); });
}

// Runs a Task that gives a T on the machine.
template <typename T>
Task<void> keep(Task<Result<T>> task, std::optional<Result<T>>& out) {
  out.emplace(co_await task);
}
Result<CheckpointInfo> describe(Machine& machine, const std::string& path) {
  std::optional<Result<CheckpointInfo>> out;
  machine.run([&](Runtime& rt) { return keep(describe_checkpoint(rt, path), out); });
  return *out;
}
Result<NamedTensors> load(Machine& machine, const std::string& path) {
  std::optional<Result<NamedTensors>> out;
  machine.run([&](Runtime& rt) { return keep(load_tensors(rt, path), out); });
  return *out;
}
Result<std::vector<VerifiedCheckpoint>> verify(Machine& machine, const std::string& path) {
  std::optional<Result<std::vector<VerifiedCheckpoint>>> out;
  machine.run([&](Runtime& rt) { return keep(verify_checkpoint(rt, path), out); });
  return *out;
}
Result<CheckpointDiff> diff(Machine& machine, const std::string& a, const std::string& b) {
  std::optional<Result<CheckpointDiff>> out;
  machine.run([&](Runtime& rt) { return keep(diff_checkpoints(rt, a, b), out); });
  return *out;
}

void flip(Machine& machine, const std::string& path) {
  Bytes bytes = machine.read(path);
  bytes.back() ^= std::byte{1};
  machine.write(path, bytes);
}

TEST(Reader, DescribesARunAFolderOfCheckpointsAndAGeneration) {
  Machine machine;
  save(machine, checkpoint_of(10));
  save(machine, checkpoint_of(20));
  for (const char* path : {"run", "run/", "run/checkpoints", "run/checkpoints/step-000000020"}) {
    const auto info = describe(machine, path);
    ASSERT_TRUE(info.ok()) << info.status().to_string();
    EXPECT_EQ(info->path, "run/checkpoints/step-000000020");
    EXPECT_TRUE(info->is_generation);
    EXPECT_EQ(info->manifest.step, 20);
    EXPECT_EQ(info->manifest.state["samples"], 2560);
    EXPECT_EQ(info->manifest.files.size(), 2U);
    EXPECT_EQ(info->manifest.tensors.size(), 3U);
    EXPECT_EQ(info->num_elems(), 60);
    EXPECT_EQ(info->tensor_bytes(), 240U);
  }
  EXPECT_EQ(describe(machine, "run")->generations, (std::vector<std::int64_t>{20, 10}));
  EXPECT_EQ(describe(machine, "run/checkpoints/step-000000010")->manifest.step, 10);
}

TEST(Reader, DescribesAndLoadsABareFile) {
  Machine machine;
  const NamedTensors tensors = checkpoint_of(1).tensors;
  const Bytes bytes = *encode_safetensors(tensors);
  machine.write("models/any.safetensors", bytes);
  const auto info = describe(machine, "models/any.safetensors");
  ASSERT_TRUE(info.ok()) << info.status().to_string();
  EXPECT_FALSE(info->is_generation);
  EXPECT_EQ(info->manifest.version, 0);
  EXPECT_EQ(info->manifest.files.at(0).name, "any.safetensors");
  EXPECT_EQ(info->manifest.files.at(0).sha256, sha256_hex(bytes));
  EXPECT_EQ(info->manifest.tensors.at(2).name, "c");
  EXPECT_EQ(info->num_elems(), 60);
  const auto loaded = load(machine, "models/any.safetensors");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(parameters_sha256(*loaded), parameters_sha256(tensors));
}

TEST(Reader, OfVersionOneListsTheTensorsOfTheFile) {
  Machine machine;
  const Bytes bytes = *encode_safetensors(checkpoint_of(1).tensors);
  const Json manifest = {{"version", 1},
                         {"step", 1},
                         {"tensors_bytes", bytes.size()},
                         {"tensors_sha256", sha256_hex(bytes)},
                         {"state", Json::object()}};
  machine.write("old/tensors.safetensors", bytes);
  machine.write("old/manifest.json", to_bytes(manifest.dump()));
  const auto info = describe(machine, "old");
  ASSERT_TRUE(info.ok()) << info.status().to_string();
  EXPECT_EQ(info->manifest.tensors.size(), 3U);
  EXPECT_TRUE(all_ok(*verify(machine, "old")));
}

TEST(Reader, LoadsTheNewestThatIsWholeOfAFolderAndExactlyTheOneThatIsNamed) {
  Machine machine;
  save(machine, checkpoint_of(10));
  save(machine, checkpoint_of(20));
  const std::string newest = "run/checkpoints/step-000000020";
  EXPECT_EQ((*load(machine, "run"))[0].second.values<float>()[0], 21);
  flip(machine, newest + "/tensors-00002-of-00002.safetensors");
  EXPECT_EQ((*load(machine, "run"))[0].second.values<float>()[0], 11);
  EXPECT_EQ(load(machine, newest).status().code(), Code::kCorrupt);
  flip(machine, "run/checkpoints/step-000000010/manifest.json");
  const auto none = load(machine, "run");
  EXPECT_EQ(none.status().code(), Code::kCorrupt);
  EXPECT_NE(none.status().message().find("every checkpoint in run/checkpoints is damaged"),
            std::string::npos);
  EXPECT_EQ(describe(machine, "run")->manifest.step, 20) << "its manifest is readable";
}

TEST(Reader, PathsThatLeadNowhereAreToldApart) {
  Machine machine;
  machine.write("empty/job.toml", to_bytes("x"));
  machine.write("broken.safetensors", to_bytes("not a model"));
  EXPECT_EQ(describe(machine, "gone").status().code(), Code::kNotFound);
  EXPECT_NE(describe(machine, "gone").status().message().find("does not exist"), std::string::npos);
  EXPECT_NE(load(machine, "empty").status().message().find("expected a run folder"), std::string::npos);
  EXPECT_EQ(verify(machine, "empty").status().code(), Code::kNotFound);
  EXPECT_EQ(load(machine, "broken.safetensors").status().code(), Code::kCorrupt);
  EXPECT_NE(load(machine, "broken.safetensors").status().message().find("broken.safetensors"),
            std::string::npos);
}

TEST(Reader, VerifiesEveryGenerationFileAndValue) {
  Machine machine;
  save(machine, checkpoint_of(10));
  Checkpoint odd = checkpoint_of(20);
  odd.tensors[1].second.values<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  odd.tensors[1].second.values<float>()[4] = std::numeric_limits<float>::infinity();
  save(machine, odd);
  const auto found = verify(machine, "run");
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_EQ(found->size(), 2U);
  EXPECT_FALSE(all_ok(*found));
  EXPECT_EQ((*found)[0].step, 20);
  ASSERT_EQ((*found)[0].non_finite.size(), 1U);
  EXPECT_EQ((*found)[0].non_finite[0].tensor, "b");
  EXPECT_EQ((*found)[0].non_finite[0].count.nans, 1);
  EXPECT_EQ((*found)[0].non_finite[0].count.infinities, 1);
  EXPECT_TRUE((*found)[0].damages.empty());
  EXPECT_TRUE((*found)[1].ok());
  EXPECT_EQ((*found)[1].num_files, 2U);
  EXPECT_EQ((*found)[1].num_tensors, 3U);
  EXPECT_EQ((*found)[1].bytes, 240U);
}

TEST(Reader, VerifyNamesEveryDamagedFile) {
  Machine machine;
  save(machine, checkpoint_of(10));
  const std::string folder = "run/checkpoints/step-000000010/";
  flip(machine, folder + "tensors-00001-of-00002.safetensors");
  machine.write(folder + "tensors-00002-of-00002.safetensors", {});
  machine.write(folder + "stray", {});
  const auto found = verify(machine, folder);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_EQ(found->at(0).damages.size(), 2U);
  EXPECT_NE(found->at(0).damages[0].find("00001-of-00002.safetensors does not have the hash"),
            std::string::npos);
  EXPECT_NE(found->at(0).damages[1].find("00002-of-00002.safetensors has 0 bytes"), std::string::npos);
  ASSERT_EQ(found->at(0).notes.size(), 1U);
  EXPECT_NE(found->at(0).notes[0].find("stray"), std::string::npos);
}

TEST(Reader, WhatACrashLeftHalfWrittenIsNoDamageBesideAWholeOne) {
  Machine machine;
  machine.write("run/checkpoints/step-000000030/tensors-00001-of-00002.safetensors", to_bytes("half"));
  EXPECT_FALSE(all_ok(*verify(machine, "run")));
  save(machine, checkpoint_of(10), "run2/checkpoints");
  machine.write("run2/checkpoints/step-000000030/tensors-00001-of-00002.safetensors", to_bytes("half"));
  const auto found = verify(machine, "run2");
  ASSERT_EQ(found->size(), 2U);
  EXPECT_FALSE(found->at(0).finished);
  EXPECT_TRUE(all_ok(*found));
  EXPECT_FALSE(all_ok(*verify(machine, "run2/checkpoints/step-000000030"))) << "asked for that very one";
}

TEST(Reader, ComparesRunsWithFiles) {
  Machine machine;
  save(machine, checkpoint_of(10));
  const Checkpoint same = checkpoint_of(10);
  machine.write("m.safetensors", *encode_safetensors(same.tensors));
  const auto equal = diff(machine, "run", "m.safetensors");
  ASSERT_TRUE(equal.ok()) << equal.status().to_string();
  EXPECT_TRUE(all_equal(equal->tensors));
  EXPECT_EQ(equal->first_step, 10);
  EXPECT_EQ(equal->second_step, -1);
  EXPECT_EQ(equal->first_path, "run/checkpoints/step-000000010");
  same.tensors[2].second.values<float>()[7] += 0.5F;
  machine.write("m.safetensors", *encode_safetensors(same.tensors));
  const auto other = diff(machine, "run", "m.safetensors");
  ASSERT_TRUE(other.ok());
  EXPECT_FALSE(all_equal(other->tensors));
  EXPECT_DOUBLE_EQ(other->tensors.at(2).max_abs, 0.5);
  EXPECT_EQ(diff(machine, "run", "gone").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace trireme::io
