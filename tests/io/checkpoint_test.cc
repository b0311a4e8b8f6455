#include "trireme/io/checkpoint.h"

#include <gtest/gtest.h>

#include <functional>

#include "trireme/runtime/virtual/world.h"

namespace trireme::io {
namespace {

using runtime::FaultSpec;
using runtime::Runtime;
using runtime::Task;

constexpr const char* kDir = "run/checkpoints";

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

Task<void> save_all(Runtime& rt, std::vector<std::int64_t> steps) {
  for (const std::int64_t step : steps) {
    const Checkpoint c = checkpoint_of(step);
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

class OneMachine {
 public:
  explicit OneMachine(std::vector<FaultSpec> faults = {}) {
    runtime::WorldSpec spec;
    spec.topology = cost::Topology::single_switch(1, {}, {});
    spec.faults = std::move(faults);
    world_ = runtime::make_virtual_world(spec);
  }
  void run(const std::function<Task<void>(Runtime&)>& body) {
    rt_ = &world_->add_runtime(0, "rank");
    world_->start(*rt_, body(*rt_));
    const auto report = world_->run(kForever);
    ASSERT_TRUE(report.finished) << report.stuck;
  }
  bool was_killed() const { return world_->is_dead(*rt_); }
  void save(std::vector<std::int64_t> steps) {
    run([&](Runtime& rt) { return save_all(rt, steps); });
  }
  Found find() {
    Found found;
    run([&](Runtime& rt) { return load(rt, found.step); });
    found.log = world_->log_of(*rt_);
    return found;
  }
  std::vector<std::string> list() {
    std::vector<std::string> names;
    run([&](Runtime& rt) { return list_into(rt, names); });
    return names;
  }
  void write(const std::string& path, Bytes bytes) {
    run([&](Runtime& rt) { return write_file(rt, path, bytes); });
  }
  Bytes read(const std::string& path) {
    Bytes bytes;
    run([&](Runtime& rt) { return read_file(rt, path, bytes); });
    return bytes;
  }

 private:
  static Task<void> list_into(Runtime& rt, std::vector<std::string>& out) {
    Result<std::vector<std::string>> names = co_await rt.files().list(kDir);
    if (names.ok()) out = *names;
  }
  static Task<void> write_file(Runtime& rt, std::string path, const Bytes& bytes) {
    const Status made = co_await rt.files().make_dirs(path.substr(0, path.rfind('/')));
    EXPECT_TRUE(made.ok());
    const Status written = co_await rt.files().write(path, bytes);
    EXPECT_TRUE(written.ok()) << written.to_string();
  }
  static Task<void> read_file(Runtime& rt, std::string path, Bytes& out) {
    Result<Bytes> bytes = co_await rt.files().read(path);
    EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
    if (bytes.ok()) out = *bytes;
  }

  std::unique_ptr<runtime::VirtualWorld> world_;
  Runtime* rt_ = nullptr;
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
      {"tensors-00001-of-00001.safetensors", [](Bytes& b) { b.back() ^= std::byte{1}; }, "hash"},
      {"tensors-00001-of-00001.safetensors", [](Bytes& b) { b.resize(b.size() / 2); }, "bytes"},
      {"tensors-00001-of-00001.safetensors", [](Bytes& b) { b.clear(); }, "has 0 bytes"},
      {"manifest.json", [](Bytes& b) { b.resize(b.size() / 2); }, "not valid JSON"},
      {"manifest.json", [](Bytes& b) { b = to_bytes("{}"); }, "'version' is missing"},
      {"manifest.json", [](Bytes& b) { b = to_bytes(R"({"version": 3})"); }, "version 3, expected 1 or 2"},
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

TEST(Checkpoint, WithEveryGenerationDamagedNoneIsFound) {
  OneMachine machine;
  machine.save({10, 20});
  for (const std::int64_t step : {10, 20}) machine.write(file_of(step, "manifest.json"), {});
  const Found found = machine.find();
  EXPECT_EQ(found.step, "-");
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
  machine.write(file_of(20, "tensors-00001-of-00001.safetensors"), to_bytes("no manifest"));
  machine.save({30});
  EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-000000010", "step-000000030"}));
}

TEST(Checkpoint, AKillAtAnyDiskOperationLeavesTheOldOrTheNewGenerationWhole) {
  bool saw_old = false, saw_new = false;
  std::uint64_t operation = 0;
  for (bool killed = true; killed; ++operation) {
    ASSERT_LT(operation, 100U);
    FaultSpec fault;
    fault.kind = FaultSpec::Kind::kKill;
    fault.runtime = 1;  // the second process: the first saved 10 and 20 in peace
    fault.site = "disk";
    fault.index = operation;
    OneMachine machine({fault});
    machine.save({10, 20});
    machine.save({30});
    killed = machine.was_killed();
    const Found found = machine.find();
    ASSERT_TRUE(found.step == "20" || found.step == "30") << "operation " << operation << ": " << found.step;
    EXPECT_FALSE(saw_new && found.step == "20") << "operation " << operation;
    EXPECT_EQ(killed || found.step == "30", true) << "nobody killed it, and it did not save";
    saw_old |= found.step == "20";
    saw_new |= found.step == "30";

    // The restarted run goes on as if nothing had been: the same step again, and the next.
    machine.save({30});
    EXPECT_EQ(machine.find().step, "30") << "operation " << operation;
    machine.save({40});
    EXPECT_EQ(machine.find().step, "40") << "operation " << operation;
    EXPECT_EQ(machine.list(), (std::vector<std::string>{"step-000000030", "step-000000040"}));
  }
  EXPECT_TRUE(saw_old && saw_new);
  EXPECT_GE(operation, 12U) << "fewer kill points than the disk operations of a save";
}

TEST(Checkpoint, AKillDuringTheVeryFirstSaveLeavesNoneOrThatOne) {
  bool saw_none = false, saw_first = false;
  std::uint64_t operation = 0;
  for (bool killed = true; killed; ++operation) {
    ASSERT_LT(operation, 100U);
    FaultSpec fault;
    fault.runtime = 0;
    fault.site = "disk";
    fault.index = operation;
    OneMachine machine({fault});
    machine.save({10});
    killed = machine.was_killed();
    const Found found = machine.find();
    ASSERT_TRUE(found.step == "-" || found.step == "10") << "operation " << operation << ": " << found.step;
    EXPECT_FALSE(saw_first && found.step == "-") << "operation " << operation;
    saw_none |= found.step == "-";
    saw_first |= found.step == "10";
  }
  EXPECT_TRUE(saw_none && saw_first);
}

Task<void> save_with_error(Runtime& rt, Status& out) {
  const Checkpoint c = checkpoint_of(30);
  out = co_await save_checkpoint(rt, kDir, c);
}

TEST(Checkpoint, AFailingDiskIsReportedAndHarmsNoGeneration) {
  int failures = 0;
  for (std::uint64_t operation = 0;; ++operation) {
    ASSERT_LT(operation, 100U);
    FaultSpec fault;
    fault.kind = FaultSpec::Kind::kError;
    fault.runtime = 1;
    fault.site = "disk";
    fault.index = operation;
    OneMachine machine({fault});
    machine.save({10, 20});
    Status status;
    machine.run([&](Runtime& rt) { return save_with_error(rt, status); });
    const Found found = machine.find();
    ASSERT_TRUE(found.step == "20" || found.step == "30") << "operation " << operation << ": " << found.step;
    if (status.ok()) {
      EXPECT_EQ(found.step, "30") << "operation " << operation;
      if (operation > 20) break;
      continue;
    }
    ++failures;
    EXPECT_NE(status.message().find("injected"), std::string::npos) << status.to_string();
  }
  EXPECT_GE(failures, 10);
}

}  // namespace
}  // namespace trireme::io
