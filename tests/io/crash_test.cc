// Checkpoints through crashes and failing disks: three generations of four files each are written while the
// process is killed, or an operation fails, at every file operation in turn.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/io/machine.h"
#include "trireme/io/checkpoint_writer.h"
#include "trireme/io/reader.h"

namespace trireme::io {
namespace {

using runtime::FaultSpec;
using runtime::Runtime;
using runtime::Task;

constexpr const char* kDir = "run/checkpoints";
constexpr CheckpointOptions kOptions{.max_shard_bytes = 100, .chunk_bytes = 64};

Checkpoint checkpoint_of(std::int64_t step) {
  Checkpoint c;
  c.step = step;
  c.state = Json{{"samples", step * 128}};
  for (const char* name : {"a", "b", "c"}) {
    const std::vector<float> values(20, static_cast<float>(step) + static_cast<float>(name[0]));
    c.tensors.emplace_back(name, Tensor::from<float>(values, {4, 5}));
  }
  return c;
}

// What a process knows: the last step that it was told is safe, and the one that it began last.
struct Progress {
  std::int64_t safe = 0, begun = 0;
  int failures = 0;
};

using Writes = Task<void> (*)(Runtime&, std::vector<std::int64_t>, Progress&);

// A step that fails is tried once more, as a trainer that goes on would at its next checkpoint.
Task<void> save_plainly(Runtime& rt, std::vector<std::int64_t> steps, Progress& p) {
  for (const std::int64_t step : steps) {
    const Checkpoint c = checkpoint_of(step);
    p.begun = step;
    for (int tries = 0; tries < 2; ++tries) {
      const Status saved = co_await save_checkpoint(rt, kDir, c, kOptions);
      if (saved.ok()) p.safe = step;
      if (saved.ok()) break;
      ++p.failures;
    }
  }
}

Task<void> save_once(Runtime& rt, std::int64_t step, Status& out) {
  const Checkpoint c = checkpoint_of(step);
  out = co_await save_checkpoint(rt, kDir, c, kOptions);
}

using PartOf = CheckpointPart (*)(Checkpoint);

Task<void> save_with(Runtime& rt, std::vector<std::int64_t> steps, Progress& p, PartOf part) {
  CheckpointWriter writer(rt, kDir, kOptions);
  for (const std::int64_t step : steps) {
    const Checkpoint c = checkpoint_of(step);
    for (int tries = 0; tries < 2; ++tries) {
      const Status begun = co_await writer.begin(part(c));
      p.safe = std::max(p.safe, writer.last_written_step());
      if (begun.ok()) p.begun = step;
      if (begun.ok()) break;
      ++p.failures;
    }
  }
  const Status end = co_await writer.finish();
  p.failures += end.ok() ? 0 : 1;
  p.safe = std::max(p.safe, writer.last_written_step());
}

Task<void> save_beside(Runtime& rt, std::vector<std::int64_t> steps, Progress& p) {
  return save_with(rt, std::move(steps), p, part_of);
}

// Two of the three files in chunks, which come from elsewhere.
CheckpointPart streamed_part(Checkpoint c) {
  CheckpointPart part = part_of(c);
  for (const std::size_t i : {0, 2}) part.tensors[i].second = Tensor();
  part.source = [tensors = std::move(c.tensors)](std::size_t piece, std::uint64_t begin,
                                                 MutByteView to) -> Task<Status> {
    return [](Tensor from, std::uint64_t at, MutByteView into) -> Task<Status> {
      std::copy_n(from.raw() + at, into.size(), into.data());
      co_return Status();
    }(tensors[piece].second, begin, to);
  };
  return part;
}

Task<void> save_streamed(Runtime& rt, std::vector<std::int64_t> steps, Progress& p) {
  return save_with(rt, std::move(steps), p, streamed_part);
}

Task<void> load(Runtime& rt, std::int64_t& step) {
  const Result<Checkpoint> loaded = co_await load_newest_checkpoint(rt, kDir);
  step = 0;
  if (!loaded.ok()) {
    EXPECT_EQ(loaded.status().code(), Code::kNotFound) << loaded.status().to_string();
    co_return;
  }
  step = loaded->step;
  const Checkpoint expected = checkpoint_of(step);
  EXPECT_EQ(loaded->state, expected.state);
  EXPECT_EQ(parameters_sha256(loaded->tensors), parameters_sha256(expected.tensors)) << "step " << step;
}

std::int64_t newest(Machine& machine) {
  std::int64_t step = -1;
  machine.run([&](Runtime& rt) { return load(rt, step); });
  return step;
}

Task<void> count_whole(Runtime& rt, int& count) {
  const auto found = co_await verify_checkpoint(rt, kDir);
  count = 0;
  if (!found.ok()) co_return;
  for (const VerifiedCheckpoint& c : *found) count += c.ok() ? 1 : 0;
}

int num_whole(Machine& machine) {
  int count = -1;
  machine.run([&](Runtime& rt) { return count_whole(rt, count); });
  return count;
}

Progress write(Machine& machine, Writes writes, std::vector<std::int64_t> steps) {
  Progress progress;
  machine.run([&](Runtime& rt) { return writes(rt, steps, progress); });
  return progress;
}

// A run that goes on after whatever happened: two more generations, and nothing else is left.
void expect_goes_on(Machine& machine, Writes writes) {
  const Progress p = write(machine, writes, {40, 50});
  EXPECT_EQ(p.safe, 50);
  EXPECT_EQ(newest(machine), 50);
  EXPECT_EQ(machine.list(kDir), (std::vector<std::string>{"step-000000040", "step-000000050"}));
  EXPECT_EQ(machine.list(std::string(kDir) + "/step-000000050").size(), 4U) << "three files and the manifest";
}

class Crash : public testing::TestWithParam<std::pair<const char*, Writes>> {
 protected:
  Writes writes() const { return GetParam().second; }
};

TEST_P(Crash, AtAnyFileOperationLeavesTheNewestGenerationOrTheOneBefore) {
  std::map<std::int64_t, int> found;
  std::uint64_t operation = 0;
  for (bool killed = true; killed; ++operation) {
    SCOPED_TRACE(fmt::format("killed at operation {}", operation));
    ASSERT_LT(operation, 500U);
    Machine machine({disk_fault(FaultSpec::Kind::kKill, 0, operation)});
    const Progress p = write(machine, writes(), {10, 20, 30});
    killed = machine.was_killed();
    const std::int64_t step = newest(machine);
    EXPECT_GE(step, p.safe) << "what was said to be safe is gone";
    EXPECT_LE(step, p.begun);
    EXPECT_GE(step, p.begun - 10) << "older than the one before";
    EXPECT_TRUE(killed || step == 30);
    EXPECT_GE(num_whole(machine), std::min<std::int64_t>(p.safe / 10, 2)) << "an old one went too early";
    ++found[step];
    expect_goes_on(machine, writes());
  }
  EXPECT_EQ(found.size(), 4U) << "some kill left nothing, and each of 10, 20 and 30";
  EXPECT_GE(operation, 3U * (1 + 4 * 4 + 3)) << "per generation: folder, four atomic writes, sync, two lists";
}

TEST_P(Crash, AtAnyMomentLeavesTheNewestGenerationOrTheOneBefore) {
  Machine undisturbed;
  write(undisturbed, writes(), {10, 20, 30});
  const TimeNs end = undisturbed.end_time();
  int kills = 0;
  for (TimeNs at = 1; at < end; at += 17 * kMicro) {
    SCOPED_TRACE(fmt::format("killed at {} ns", at));
    FaultSpec fault;
    fault.runtime = 0;
    fault.at = at;
    Machine machine({fault});
    const Progress p = write(machine, writes(), {10, 20, 30});
    kills += machine.was_killed() ? 1 : 0;
    const std::int64_t step = newest(machine);
    EXPECT_GE(step, p.safe);
    EXPECT_GE(step, p.begun - 10);
    EXPECT_LE(step, p.begun);
  }
  EXPECT_GT(kills, 100);
}

// The process that takes over is killed too.
TEST_P(Crash, TwiceInARowLosesNothingMore) {
  std::uint64_t second = 0;
  int pairs = 0;
  for (std::uint64_t first = 0; first < 75; first += 3) {
    bool killed = true;
    for (second = first % 2; killed; second += 2, ++pairs) {
      SCOPED_TRACE(fmt::format("killed at operation {}, then at {}", first, second));
      Machine machine(
          {disk_fault(FaultSpec::Kind::kKill, 0, first), disk_fault(FaultSpec::Kind::kKill, 2, second)});
      write(machine, writes(), {10, 20, 30});
      const std::int64_t before = newest(machine);
      const Progress p = write(machine, writes(), {before + 10, before + 20});
      killed = machine.was_killed();
      const std::int64_t step = newest(machine);
      EXPECT_GE(step, std::max(before, p.safe));
      EXPECT_LE(step, std::max(before, p.begun));
    }
  }
  EXPECT_GT(pairs, 500);
}

TEST_P(Crash, AnyFailingFileOperationIsReportedAndHarmsNoGeneration) {
  int failures = 0;
  std::uint64_t operation = 0;
  for (int quiet = 0; quiet < 10; ++operation) {
    SCOPED_TRACE(fmt::format("operation {} fails", operation));
    ASSERT_LT(operation, 500U);
    Machine machine({disk_fault(FaultSpec::Kind::kError, 0, operation)});
    const Progress p = write(machine, writes(), {10, 20, 30});
    failures += p.failures;
    quiet = p.failures == 0 ? quiet + 1 : 0;
    EXPECT_LE(p.failures, 1);
    EXPECT_GE(newest(machine), p.failures == 0 ? 30 : std::max<std::int64_t>(p.safe, 20));
    expect_goes_on(machine, writes());
  }
  EXPECT_GE(failures, 50);
}

// A failure is not undone as a kill's unsynced removals are: an old generation that went before the new one
// was whole would be missed here.
TEST(Failure, AtAnyOperationOfASaveLeavesTwoWholeGenerations) {
  int failures = 0;
  std::uint64_t operation = 0;
  for (bool failed = true; failed || operation < 5; ++operation) {
    SCOPED_TRACE(fmt::format("operation {} fails", operation));
    ASSERT_LT(operation, 100U);
    Machine machine({disk_fault(FaultSpec::Kind::kError, 1, operation)});
    write(machine, save_plainly, {10, 20});
    Status saved;
    machine.run([&](Runtime& rt) { return save_once(rt, 30, saved); });
    failed = !saved.ok();
    failures += failed ? 1 : 0;
    EXPECT_GE(num_whole(machine), 2) << saved.to_string();
    EXPECT_GE(newest(machine), failed ? 20 : 30);
  }
  EXPECT_GE(failures, 18) << "folder, four atomic writes of four operations, sync";
}

TEST_P(Crash, ADiskThatIsFullAtAnySizeKeepsTheLastGenerationThatWasSafe) {
  std::map<std::int64_t, int> found;
  for (std::uint64_t capacity = 0; capacity < 6000; capacity += 50) {
    SCOPED_TRACE(fmt::format("full at {} bytes", capacity));
    runtime::DiskFault full;
    full.kind = runtime::DiskFault::Kind::kFull;
    full.capacity_bytes = capacity;
    full.duration = kSecond;  // then somebody makes room
    Machine machine({}, {full});
    const Progress p = write(machine, writes(), {10, 20, 30});
    EXPECT_EQ(newest(machine), p.safe);
    EXPECT_GE(num_whole(machine), std::min<std::int64_t>(p.safe / 10, 2)) << "an old one went too early";
    EXPECT_EQ(p.failures > 0, p.safe < 30);
    ++found[p.safe];
    machine.run([](Runtime& rt) -> Task<void> { co_await rt.sleep_for(2 * kSecond); });
    expect_goes_on(machine, writes());
  }
  EXPECT_EQ(found.size(), 4U) << "room for none, one, two, and for the third before the first goes";
}

INSTANTIATE_TEST_SUITE_P(Writers, Crash,
                         testing::Values(std::pair{"plain", Writes{save_plainly}},
                                         std::pair{"beside", Writes{save_beside}},
                                         std::pair{"streamed", Writes{save_streamed}}),
                         [](const auto& info) { return info.param.first; });

// Bytes that rot later: whichever byte of the newest generation changes, the one before is loaded.
TEST(Rot, OfAnyByteOfTheNewestGenerationIsNoticed) {
  Machine machine;
  write(machine, save_plainly, {10, 20});
  const std::string folder = std::string(kDir) + "/step-000000020/";
  int bytes = 0;
  for (const auto& [name, content] : machine.read_folder(folder)) {
    for (std::size_t i = 0; i < content.size(); ++i, ++bytes) {
      Bytes damaged = content;
      damaged[i] ^= std::byte{0x10};
      machine.write(folder + name, damaged);
      ASSERT_EQ(newest(machine), 10) << name << " byte " << i;
    }
    machine.write(folder + name, content);
  }
  EXPECT_GT(bytes, 1000);
  EXPECT_EQ(newest(machine), 20);
}

}  // namespace
}  // namespace trireme::io
