#include "trireme/io/checkpoint.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/io/machine.h"
#include "trireme/base/hash.h"

namespace trireme::io {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr const char* kDir = "run/checkpoints";
constexpr const char* kOneShard = "tensors-00001-of-00001.safetensors";

Checkpoint checkpoint_of(std::int64_t step) {
  Checkpoint c;
  c.step = step;
  c.state = Json{{"epoch", step / 10}, {"seed", 7}};
  std::vector<float> values(100, static_cast<float>(step));
  c.tensors.emplace_back("w", Tensor::from<float>(values, {10, 10}));
  return c;
}

// What a load found: the step, "-" for none, or what is wrong with it.
struct Found {
  std::string step;
  std::vector<std::string> log;
};

Task<void> save_all(Runtime& rt, std::vector<std::int64_t> steps, std::vector<std::int64_t> keep) {
  for (const std::int64_t step : steps) {
    Checkpoint c = checkpoint_of(step);
    c.keep = keep;
    const Status saved = co_await save_checkpoint(rt, kDir, c);
    EXPECT_TRUE(saved.ok()) << saved.to_string();
  }
}

Task<void> load(Runtime& rt, std::string& out) {
  Result<Checkpoint> loaded = co_await load_newest_checkpoint(rt, kDir);
  if (!loaded.ok()) {
    out = loaded.status().code() == Code::kNotFound ? "-" : loaded.status().to_string();
    co_return;
  }
  const Checkpoint expected = checkpoint_of(loaded->step);
  const bool whole = loaded->state == expected.state &&
                     parameters_sha256(loaded->tensors) == parameters_sha256(expected.tensors);
  out = whole ? std::to_string(loaded->step) : "mixed";
}

class OneMachine : public Machine {
 public:
  using Machine::list;
  using Machine::Machine;
  void save(std::vector<std::int64_t> steps, std::vector<std::int64_t> keep = {}) {
    run([&](Runtime& rt) { return save_all(rt, steps, keep); });
  }
  Found find() {
    Found found;
    run([&](Runtime& rt) { return load(rt, found.step); });
    found.log = log();
    return found;
  }
  std::vector<std::string> list() { return Machine::list(kDir); }
};

std::string file_of(std::int64_t step, const char* name) {
  return fmt::format("{}/step-{:09}/{}", kDir, step, name);
}

TEST(Checkpoint, ComesBackWithItsStepStateAndTensors) {
  OneMachine machine;
  EXPECT_EQ(machine.find().step, "-") << "a folder that does not exist";
  machine.save({10});
  const Found found = machine.find();
  EXPECT_EQ(found.step, "10");
  EXPECT_TRUE(found.log.empty());
}

TEST(Checkpoint, TheNewestOfTwoKeptGenerationsIsLoaded) {
  OneMachine machine;
  machine.save({10, 20, 30, 40});
  EXPECT_EQ(machine.find().step, "40");
  EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-000000030", "step-000000040"}));
}

TEST(Checkpoint, AGenerationThatIsToBeKeptStaysUntilItIsNotNamedAnyMore) {
  OneMachine machine;
  machine.save({1, 2, 3, 4}, {2, -1});
  EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-000000002", "step-000000003", "step-000000004"}));
  machine.save({5}, {3, 2});
  EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-000000002", "step-000000003", "step-000000004",
                                                      "step-000000005"}));
  machine.save({6}, {3});
  EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-000000003", "step-000000005", "step-000000006"}));
  EXPECT_EQ(machine.find().step, "6");
}

TEST(Checkpoint, GenerationsAreOrderedByNumberNotByText) {
  OneMachine machine;
  machine.save({999'999'998, 999'999'999, 1'000'000'000});
  EXPECT_EQ(machine.find().step, "1000000000");
  EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-1000000000", "step-999999999"}));
}

TEST(Checkpoint, NamesThatAreNotGenerationsAreLeftAlone) {
  OneMachine machine;
  machine.write(fmt::format("{}/step-000000099.bak/manifest.json", kDir), to_bytes("mine"));
  machine.write(fmt::format("{}/step-7/manifest.json", kDir), to_bytes("mine"));
  machine.save({10, 20, 30});
  const Found found = machine.find();
  EXPECT_EQ(found.step, "30");
  EXPECT_TRUE(found.log.empty());
  EXPECT_EQ(machine.list(),
            (std::vector<std::string>{"step-000000020", "step-000000030", "step-000000099.bak", "step-7"}));
}

TEST(Checkpoint, ADamagedNewestFallsBackToThePreviousWithALineInTheLog) {
  struct Damage {
    const char* file;
    std::function<void(Bytes&)> apply;
    const char* said;
  };
  const Damage damages[] = {
      {kOneShard, [](Bytes& b) { b.back() ^= std::byte{1}; }, "hash"},
      {kOneShard, [](Bytes& b) { b.resize(b.size() / 2); }, "bytes"},
      {kOneShard, [](Bytes& b) { b.clear(); }, "has 0 bytes"},
      {"manifest.json", [](Bytes& b) { b.resize(b.size() / 2); }, "not valid JSON"},
      {"manifest.json", [](Bytes& b) { b = to_bytes("{}"); }, "'version' is missing"},
      {"manifest.json", [](Bytes& b) { b = to_bytes(R"({"version": 4})"); }, "version 4, expected 1 to 3"},
      {"manifest.json", [](Bytes& b) { b = to_bytes(R"({"version": 1, "step": "x"})"); }, "'step'"},
      {"manifest.json", [](Bytes& b) { b = to_bytes("[1]"); }, "'version' is missing"},
  };
  for (const Damage& damage : damages) {
    OneMachine machine;
    machine.save({10, 20});
    Bytes bytes = machine.read(file_of(20, damage.file));
    damage.apply(bytes);
    machine.write(file_of(20, damage.file), bytes);
    const Found found = machine.find();
    EXPECT_EQ(found.step, "10") << damage.said;
    ASSERT_EQ(found.log.size(), 1U) << damage.said;
    EXPECT_NE(found.log[0].find("step-000000020 is skipped"), std::string::npos) << found.log[0];
    EXPECT_NE(found.log[0].find(damage.said), std::string::npos) << found.log[0];
  }
}

TEST(Checkpoint, EveryGenerationDamagedIsAnErrorAndNotAFreshStart) {
  OneMachine machine;
  machine.save({10, 20});
  for (const std::int64_t step : {10, 20}) machine.write(file_of(step, "manifest.json"), {});
  const Found found = machine.find();
  EXPECT_NE(found.step.find("every checkpoint in run/checkpoints is damaged; the newest"), std::string::npos)
      << found.step;
  EXPECT_EQ(found.log.size(), 2U);
}

// A run that fell back to step 10 and saves at other steps than before must not lose what it saves.
TEST(Checkpoint, WhatIsSavedIsKeptAlthoughDamagedLaterGenerationsExist) {
  OneMachine machine;
  machine.save({10, 20});
  machine.write(file_of(20, "manifest.json"), {});
  machine.write(file_of(30, "tensors-00001-of-00001.safetensors.tmp"), {});
  machine.save({12});
  EXPECT_EQ(machine.find().step, "12");
  EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-000000010", "step-000000012"}));
}

TEST(Checkpoint, AHalfWrittenGenerationDoesNotCountAsThePreviousOne) {
  OneMachine machine;
  machine.save({10});
  machine.write(file_of(20, kOneShard), to_bytes("no manifest"));
  machine.save({30});
  EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-000000010", "step-000000030"}));
}

TEST(Checkpoint, OfVersionOneIsReadAndReplacedByTheNextSave) {
  OneMachine machine;
  const Checkpoint old = checkpoint_of(10);
  const Bytes tensors = *encode_safetensors(old.tensors);
  const Json manifest = {{"version", 1},
                         {"step", 10},
                         {"tensors", "tensors.safetensors"},
                         {"tensors_bytes", tensors.size()},
                         {"tensors_sha256", sha256_hex(tensors)},
                         {"state", old.state}};
  machine.write(file_of(10, "tensors.safetensors"), tensors);
  machine.write(file_of(10, "manifest.json"), to_bytes(manifest.dump()));
  EXPECT_EQ(machine.find().step, "10");
  machine.save({10});
  EXPECT_EQ(machine.find().step, "10");
  EXPECT_EQ(machine.list(kDir + std::string("/step-000000010")),
            (std::vector<std::string>{"manifest.json", kOneShard}));
}

}  // namespace
}  // namespace trireme::io
