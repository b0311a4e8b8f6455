#include "trireme/io/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// What another rank keeps, of which a chunk at a time is read. Odd tensors come from it, even ones are here.
struct Elsewhere {
  Checkpoint whole;
  std::uint64_t most_bytes = 0;
  std::int64_t num_reads = 0;
  std::int64_t lost_after = -1;  // reads; -1: never

  static Task<Status> read(Elsewhere& from, std::size_t piece, std::uint64_t begin, MutByteView to) {
    from.most_bytes = std::max<std::uint64_t>(from.most_bytes, to.size());
    if (from.num_reads++ == from.lost_after) co_return error(Code::kPeerLost, "[test] it is gone");
    const Tensor& tensor = from.whole.tensors[piece].second;
    std::copy_n(tensor.raw() + begin, to.size(), to.data());
    co_return Status();
  }
  CheckpointPart part() {
    CheckpointPart out = part_of(whole);
    for (std::size_t i = 1; i < out.tensors.size(); i += 2) out.tensors[i].second = Tensor();
    out.source = [this](std::size_t piece, std::uint64_t begin, MutByteView to) {
      return read(*this, piece, begin, to);
    };
    return out;
  }
};

// Chunks that end inside headers and elements, one that is a whole file, and one for all.
Task<void> stream_in_chunks(Runtime& rt) {
  for (const std::uint64_t shard : {500, 900, 100000})
    for (const std::uint64_t chunk : {1, 7, 150, 400, 100000}) {
      const std::string dir = fmt::format("{}-{}", shard, chunk);
      CheckpointWriter writer(rt, dir + "/streamed", {.max_shard_bytes = shard, .chunk_bytes = chunk});
      for (const std::int64_t step : {10, 20}) {
        Elsewhere from{checkpoint_of(step)};
        EXPECT_TRUE(
            (co_await save_checkpoint(rt, dir + "/plain", from.whole, {.max_shard_bytes = shard})).ok());
        const Status begun = co_await writer.begin(from.part());
        EXPECT_TRUE(begun.ok()) << begun.to_string();
        spoil(from.whole);
        EXPECT_GT(from.num_reads, 0);
        EXPECT_LE(from.most_bytes, chunk);
      }
      EXPECT_TRUE((co_await writer.finish()).ok());
      EXPECT_EQ(writer.stats().written, 2);
    }
}

TEST(CheckpointWriter, FilesThatAreStreamedHaveTheBytesOfThoseThatAreCopied) {
  Machine machine;
  machine.run(stream_in_chunks);
  for (const char* dir : {"500-1", "500-150", "900-7", "900-400", "100000-150", "100000-100000"})
    for (const char* step : {"/step-000000010", "/step-000000020"}) {
      const auto plain = machine.read_folder(std::string(dir) + "/plain" + step);
      EXPECT_GE(plain.size(), 2U);
      EXPECT_TRUE(plain == machine.read_folder(std::string(dir) + "/streamed" + step)) << dir << step;
    }
}

Task<void> lose_the_source(Runtime& rt) {
  CheckpointWriter writer(rt, "c", {.max_shard_bytes = 500, .chunk_bytes = 64});
  Elsewhere first{checkpoint_of(10)};
  EXPECT_TRUE((co_await writer.begin(first.part())).ok());
  for (const std::int64_t step : {10, 20}) {
    Elsewhere second{checkpoint_of(step)};
    second.lost_after = 9;  // in the second file that is streamed
    const Status lost = co_await writer.begin(second.part());
    EXPECT_EQ(lost.code(), Code::kPeerLost);
    EXPECT_NE(lost.message().find("was not written"), std::string::npos) << lost.message();
    EXPECT_FALSE(writer.writing());
    co_await expect_newest(rt, "c", 10);
  }
  EXPECT_TRUE((co_await writer.begin(checkpoint_of(20))).ok()) << "without what is gone";
  EXPECT_TRUE((co_await writer.finish()).ok());
  co_await expect_newest(rt, "c", 20);
}

TEST(CheckpointWriter, ASourceThatIsLostLeavesTheGenerationBeforeAndNoFiles) {
  Machine machine;
  machine.run(lose_the_source);
  EXPECT_EQ(machine.list("c/step-000000010").size(), 6U) << "also where the step was written before";
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
