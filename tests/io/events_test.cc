#include "trireme/io/events.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/io/machine.h"
#include "trireme/base/rng.h"

namespace trireme::io {
namespace {

using runtime::FaultSpec;
using runtime::Runtime;
using runtime::Task;

ScalarEvent scalar(std::string tag, std::int64_t step, float value) {
  ScalarEvent e;
  e.tag = std::move(tag);
  e.step = step;
  e.wall_time = 1.5e9 + static_cast<double>(step);
  e.value = value;
  return e;
}

Bytes small_file() {
  Bytes file = event_file_header(1.5e9);
  append_scalar(file, scalar("train/loss", 1, 2.5F));
  append_scalar(file, scalar("train/loss", 2, 2.25F));
  append_scalar(file, scalar("test/accuracy", 2, 0.5F));
  return file;
}

// Written by hand from the two formats: 24 bytes of content, its length and sums around it.
TEST(Events, ARecordHasTheBytesOfTheFormat) {
  const Bytes file = event_file_header(0);
  EXPECT_EQ(to_hex(ByteView(file).first(8)), "1800000000000000");
  EXPECT_EQ(to_hex(ByteView(file).subspan(8, 4)), "a37f4b22") << "masked CRC32C of the length";
  EXPECT_EQ(to_hex(ByteView(file).subspan(12, 24)),
            "090000000000000000"  // 1: double
            "1a0d"                // 3: 13 bytes
            "627261696e2e4576656e743a32");
  EXPECT_EQ(file.size(), 8U + 4U + 24U + 4U);
}

TEST(Events, ComeBackAsTheyWere) {
  Bytes file = event_file_header(7);
  const float values[] = {0, -1.5F, 3e38F, std::numeric_limits<float>::infinity(), std::nanf("")};
  std::int64_t step = -2;
  for (const float v : values) append_scalar(file, scalar("tag \u00e9", step += 1'000'000'000'000, v));
  append_scalar(file, scalar("", -1, 1));
  const EventFile back = read_events(file);
  EXPECT_EQ(back.valid_bytes, file.size());
  ASSERT_EQ(back.records.size(), 7U);
  EXPECT_TRUE(back.records[0].is_header);
  ASSERT_EQ(back.scalars.size(), 6U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(back.scalars[i].value, values[i]);
  EXPECT_TRUE(std::isnan(back.scalars[4].value));
  EXPECT_EQ(back.scalars[0].tag, "tag \u00e9");
  EXPECT_EQ(back.scalars[0].step, 999'999'999'998);
  EXPECT_EQ(back.scalars[0].wall_time, 1.5e9 + 999'999'999'998.0);
  EXPECT_EQ(back.scalars[5].step, -1);
}

TEST(Events, AreReadUpToTheFirstTornOrDamagedRecord) {
  const Bytes file = small_file();
  const EventFile whole = read_events(file);
  ASSERT_EQ(whole.records.size(), 4U);
  for (std::size_t size = 0; size <= file.size(); ++size) {
    const EventFile cut = read_events(ByteView(file).first(size));
    EXPECT_LE(cut.valid_bytes, size);
    std::size_t complete = 0;
    for (const auto& record : whole.records) complete += record.end <= size ? 1 : 0;
    EXPECT_EQ(cut.records.size(), complete) << size;
  }
  for (std::size_t i = 0; i < file.size(); ++i) {
    Bytes damaged = file;
    damaged[i] ^= std::byte{0x40};
    const EventFile found = read_events(damaged);
    EXPECT_LE(found.valid_bytes, i) << "the record with byte " << i << " was taken";
  }
}

TEST(Events, NoiseIsHarmless) {
  Philox random(5);
  for (int round = 0; round < 2000; ++round) {
    Bytes noise(random.next_u32() % 80);
    for (std::byte& b : noise) b = static_cast<std::byte>(random.next_u32());
    EXPECT_EQ(read_events(noise).records.size(), 0U);
  }
}

Task<void> write_steps(Runtime& rt, std::int64_t resumed_at, std::int64_t end, std::string& path) {
  EXPECT_TRUE((co_await rt.files().make_dirs("run")).ok());
  EventWriter writer(rt, "run");
  EXPECT_EQ((co_await writer.flush()).code(), Code::kInvalid);
  const Status opened = co_await writer.open(resumed_at);
  EXPECT_TRUE(opened.ok()) << opened.to_string();
  for (std::int64_t step = resumed_at + 1; step <= end; ++step) {
    writer.add_scalar("loss", step, static_cast<double>(step) / 2);
    const Status flushed = co_await writer.flush();
    EXPECT_TRUE(flushed.ok()) << flushed.to_string();
  }
  path = writer.path();
}

std::vector<std::int64_t> steps_in(const Bytes& file) {
  std::vector<std::int64_t> steps;
  for (const ScalarEvent& e : read_events(file).scalars) steps.push_back(e.step);
  return steps;
}

TEST(EventWriter, GoesOnInTheSameFileWithoutTheStepsThatAreDoneAgain) {
  Machine machine;
  std::string path, again;
  machine.run([&](Runtime& rt) { return write_steps(rt, 0, 5, path); });
  EXPECT_TRUE(path.starts_with("run/events.out.tfevents.")) << path;
  EXPECT_TRUE(path.ends_with(".trireme")) << path;
  EXPECT_EQ(steps_in(machine.read(path)), (std::vector<std::int64_t>{1, 2, 3, 4, 5}));
  Bytes torn = machine.read(path);
  torn.resize(torn.size() - 3);
  machine.write(path, torn);
  machine.run([&](Runtime& rt) { return write_steps(rt, 3, 6, again); });
  EXPECT_EQ(again, path);
  EXPECT_EQ(steps_in(machine.read(path)), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(machine.list("run").size(), 1U);
}

TEST(EventWriter, AFileThatIsNoEventFileIsBegunAnew) {
  Machine machine;
  machine.write("run/events.out.tfevents.1.trireme", to_bytes("rubbish"));
  std::string path;
  machine.run([&](Runtime& rt) { return write_steps(rt, 0, 2, path); });
  EXPECT_EQ(path, "run/events.out.tfevents.1.trireme");
  EXPECT_EQ(read_events(machine.read(path)).records.size(), 3U);
}

TEST(EventWriter, AKillAtAnyFileOperationLeavesAFileThatGoesOn) {
  bool killed = true;
  std::uint64_t operation = 0;
  for (; killed; ++operation) {
    SCOPED_TRACE(operation);
    Machine machine({disk_fault(FaultSpec::Kind::kKill, 0, operation)});
    std::string path;
    machine.run([&](Runtime& rt) { return write_steps(rt, 0, 4, path); });
    killed = machine.was_killed();
    machine.run([&](Runtime& rt) { return write_steps(rt, 1, 4, path); });
    std::vector<std::int64_t> steps = steps_in(machine.read(path));
    if (steps.front() == 2) steps.insert(steps.begin(), 1);  // what was never synced may be lost
    EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4}));
  }
  EXPECT_GT(operation, 8U);
}

Task<void> write_on_a_bad_disk(Runtime& rt, std::string& path) {
  EXPECT_TRUE((co_await rt.files().make_dirs("run")).ok());
  EventWriter writer(rt, "run");
  for (int tries = 0; tries < 5 && !(co_await writer.open(0)).ok(); ++tries) {
  }
  for (std::int64_t step = 1; step <= 6; ++step) {
    writer.add_scalar("loss", step, 1);
    (void)co_await writer.flush();
  }
  path = writer.path();
}

TEST(EventWriter, AFailedFlushIsMadeUpForByTheNext) {
  for (std::uint64_t operation = 1; operation < 12; ++operation) {
    SCOPED_TRACE(operation);
    Machine machine({disk_fault(FaultSpec::Kind::kError, 0, operation)});
    std::string path;
    machine.run([&](Runtime& rt) { return write_on_a_bad_disk(rt, path); });
    std::vector<std::int64_t> steps = steps_in(machine.read(path));
    if (operation == 11 && steps.size() == 5) steps.push_back(6);  // the last flush had no successor
    EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  }
}

}  // namespace
}  // namespace trireme::io
