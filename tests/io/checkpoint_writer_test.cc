#include "trireme/io/checkpoint_writer.h"

#include <gtest/gtest.h>

#include "tests/io/machine.h"
#include "tests/runtime/temp_dir.h"
#include "trireme/io/snapshot.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::io {
namespace {

using runtime::Runtime;
using runtime::Task;

constexpr CheckpointOptions kSmallShards{.max_shard_bytes = 500};

Checkpoint checkpoint_of(std::int64_t step) {
  Checkpoint c;
  c.step = step;
  c.state = Json{{"samples", step * 128}};
  for (int i = 0; i < 5; ++i) {
    std::vector<float> values(100, static_cast<float>(step * 10 + i));
    c.tensors.emplace_back(fmt::format("w{}", i), Tensor::from<float>(values, {10, 10}));
  }
  return c;
}

bool is_whole(const Checkpoint& c) {
  const Checkpoint expected = checkpoint_of(c.step);
  return c.state == expected.state && parameters_sha256(c.tensors) == parameters_sha256(expected.tensors);
}

void spoil(const Checkpoint& c) {
  for (const auto& [name, tensor] : c.tensors)
    for (float& v : tensor.values<float>()) v = -1;
}

Task<void> expect_newest(Runtime& rt, std::string dir, std::int64_t step) {
  const Result<Checkpoint> loaded = co_await load_newest_checkpoint(rt, dir);
  EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
  if (!loaded.ok()) co_return;
  EXPECT_EQ(loaded->step, step);
  EXPECT_TRUE(is_whole(*loaded));
}

Task<void> write_both_ways(Runtime& rt) {
  CheckpointWriter writer(rt, "async", kSmallShards);
  for (const std::int64_t step : {10, 20, 30}) {
    const Checkpoint c = checkpoint_of(step);
    const Status saved = co_await save_checkpoint(rt, "plain", c, kSmallShards);
    EXPECT_TRUE(saved.ok()) << saved.to_string();
    const Status begun = co_await writer.begin(c);
    EXPECT_TRUE(begun.ok()) << begun.to_string();
  }
  const Status finished = co_await writer.finish();
  EXPECT_TRUE(finished.ok()) << finished.to_string();
  EXPECT_EQ(writer.last_written_step(), 30);
}

TEST(CheckpointWriter, WritesByteForByteWhatSaveCheckpointWrites) {
  Machine machine;
  machine.run(write_both_ways);
  EXPECT_EQ(machine.list("async"), (std::vector<std::string>{"step-000000020", "step-000000030"}));
  for (const char* name : {"step-000000020", "step-000000030"}) {
    const auto plain = machine.read_folder(std::string("plain/") + name);
    EXPECT_EQ(plain.size(), 6U) << "five shards of one tensor each, and the manifest";
    EXPECT_TRUE(plain == machine.read_folder(std::string("async/") + name)) << name;
  }
}

Task<void> change_after_begin(Runtime& rt) {
  CheckpointWriter writer(rt, "c", kSmallShards);
  EXPECT_EQ(writer.last_written_step(), -1);
  for (const std::int64_t step : {10, 20}) {
    const Checkpoint c = checkpoint_of(step);
    const Status begun = co_await writer.begin(c);
    EXPECT_TRUE(begun.ok()) << begun.to_string();
    EXPECT_TRUE(writer.writing());
    spoil(c);
  }
  const Status finished = co_await writer.finish();
  EXPECT_TRUE(finished.ok()) << finished.to_string();
  EXPECT_FALSE(writer.writing());
  co_await expect_newest(rt, "c", 20);
  const CheckpointWriterStats& stats = writer.stats();
  EXPECT_EQ(stats.snapshots, 2);
  EXPECT_EQ(stats.written, 2);
  EXPECT_GT(stats.snapshot_ns, 0);
  EXPECT_GT(stats.bytes, 2U * 5 * 400);
  EXPECT_GT(stats.write_ns, 10 * stats.snapshot_ns) << "the caller pays for the copy, not for the disk";
  EXPECT_GT(stats.waited_ns, 0) << "the second begin came while the first was being written";
}

TEST(CheckpointWriter, TensorsMayChangeAsSoonAsBeginReturns) {
  Machine machine;
  machine.run(change_after_begin);
}

Task<void> wait_too_short(Runtime& rt) {
  CheckpointWriter writer(rt, "c");
  const Checkpoint first = checkpoint_of(10), second = checkpoint_of(20);
  EXPECT_TRUE((co_await writer.begin(first)).ok());
  const TimeNs before = rt.now();
  const Status late = co_await writer.begin(second, 60 * kMicro);
  EXPECT_EQ(rt.now() - before, 60 * kMicro);
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_NE(late.message().find("step 10 is still being written"), std::string::npos) << late.message();
  EXPECT_EQ((co_await writer.finish(0)).code(), Code::kDeadline);
  EXPECT_TRUE((co_await writer.finish()).ok()) << "the write was not harmed";
  EXPECT_TRUE((co_await writer.finish()).ok()) << "nothing under way";
  co_await expect_newest(rt, "c", 10);
  EXPECT_EQ(writer.stats().snapshots, 1);
}

TEST(CheckpointWriter, AWriteThatTakesTooLongIsAnErrorAndGoesOn) {
  Machine machine;
  machine.run(wait_too_short);
}

Task<void> fill_the_disk(Runtime& rt) {
  CheckpointWriter writer(rt, "c", kSmallShards);
  const Checkpoint first = checkpoint_of(10), second = checkpoint_of(20), third = checkpoint_of(30);
  EXPECT_TRUE((co_await writer.begin(first)).ok());
  EXPECT_TRUE((co_await writer.finish()).ok());
  EXPECT_TRUE((co_await writer.begin(second)).ok()) << "nobody knows yet that the disk is full";
  const Status full = co_await writer.begin(third);
  EXPECT_EQ(full.code(), Code::kExhausted);
  EXPECT_NE(full.message().find("step 20 was not written"), std::string::npos) << full.message();
  EXPECT_NE(full.message().find("no space left"), std::string::npos) << full.message();
  EXPECT_FALSE(writer.writing()) << "a begin that reports a failure begins nothing";
  co_await expect_newest(rt, "c", 10);
  const Result<bool> left = co_await rt.files().exists("c/step-000000020");
  EXPECT_TRUE(left.ok() && !*left) << "the half-written generation takes up no space";
  EXPECT_TRUE((co_await writer.begin(third)).ok()) << "told once";
  EXPECT_EQ((co_await writer.finish()).code(), Code::kExhausted);
  EXPECT_EQ(writer.last_written_step(), 10);
  EXPECT_EQ(writer.stats().written, 1);
}

TEST(CheckpointWriter, AFullDiskComesOutOfTheNextCallAndLeavesThePreviousGeneration) {
  runtime::DiskFault full;
  full.kind = runtime::DiskFault::Kind::kFull;
  full.capacity_bytes = 5500;  // a generation has 2,000 bytes of tensors, headers and a manifest
  Machine machine({}, {full});
  machine.run(fill_the_disk);
}

Task<void> drop_the_writer(Runtime& rt) {
  const Checkpoint c = checkpoint_of(10);
  {
    CheckpointWriter writer(rt, "c");
    EXPECT_TRUE((co_await writer.begin(c)).ok());
  }
  co_await rt.sleep_for(kSecond);
  co_await expect_newest(rt, "c", 10);
}

TEST(CheckpointWriter, DestroyedWhileWritingItStillWrites) {
  Machine machine;
  machine.run(drop_the_writer);
}

Task<void> begin_a_phantom(Runtime& rt) {
  CheckpointWriter writer(rt, "c");
  Checkpoint c = checkpoint_of(10);
  c.tensors.emplace_back("ghost", *Tensor::allocate(phantom_device(), {DType::kF32, {4}}));
  const Status refused = co_await writer.begin(c);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_FALSE(writer.writing());
  EXPECT_TRUE((co_await writer.finish()).ok());
}

TEST(CheckpointWriter, PhantomsAreRefused) {
  Machine machine;
  machine.run(begin_a_phantom);
}

Task<void> take_twice(Runtime& rt) {
  const Checkpoint first = checkpoint_of(10), second = checkpoint_of(20);
  const auto shards = plan_shards(whole_pieces(first.tensors), 1000);
  Snapshot snapshot;
  EXPECT_TRUE((co_await snapshot.take(rt, first.tensors, *shards)).ok());
  const std::byte* memory = snapshot.file(1).data();
  const Bytes before(snapshot.file(1).begin(), snapshot.file(1).end());
  EXPECT_TRUE((co_await snapshot.take(rt, second.tensors, *shards)).ok());
  EXPECT_EQ(snapshot.file(1).data(), memory);
  EXPECT_FALSE(std::equal(before.begin(), before.end(), snapshot.file(1).begin()));
}

TEST(Snapshot, ReusesItsMemory) {
  Machine machine;
  machine.run(take_twice);
}

// On real threads: every step another checkpoint, the tensors spoilt at once.
Task<void> write_on_threads(Runtime& rt, std::string dir) {
  CheckpointWriter writer(rt, dir, kSmallShards);
  for (std::int64_t step = 1; step <= 20; ++step) {
    const Checkpoint c = checkpoint_of(step);
    const Status begun = co_await writer.begin(c);
    EXPECT_TRUE(begun.ok()) << begun.to_string();
    spoil(c);
  }
  EXPECT_TRUE((co_await writer.finish()).ok());
  co_await expect_newest(rt, dir, 20);
}

TEST(CheckpointWriter, WorksOnThreads) {
  const runtime::TempDir folder;
  runtime::RealOptions options;
  options.compute_threads = 3;
  options.spin_ns = 0;
  const auto rt = runtime::make_real_runtime(options);
  rt->run(write_on_threads(*rt, folder / "c"));
}

}  // namespace
}  // namespace trireme::io
