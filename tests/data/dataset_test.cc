#include "trireme/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/data/digits.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::data {
namespace {

using runtime::Runtime;
using runtime::Task;
using Loaded = std::shared_ptr<const Dataset>;

constexpr std::size_t kPixels = kDigitSide * kDigitSide;
constexpr const char* kCacheFile = "cache/data/digits-2024.bin";

Task<void> load_into(Runtime& rt, DigitsOptions options, Loaded& out) {
  Result<Loaded> loaded = co_await load_digits(rt, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().to_string();
  if (loaded.ok()) out = *loaded;
}

class OneMachine {
 public:
  OneMachine() {
    runtime::WorldSpec spec;
    spec.topology = cost::Topology::single_switch(1, {}, {});
    world_ = runtime::make_virtual_world(spec);
  }
  Runtime& new_runtime() { return world_->add_runtime(0, "rank"); }
  // Virtual time the load took.
  TimeNs load(DigitsOptions options, Loaded& out) {
    Runtime& rt = new_runtime();
    const TimeNs before = rt.now();
    run(rt, load_into(rt, std::move(options), out));
    return rt.now() - before;
  }
  void run(Runtime& rt, Task<void> task) {
    world_->start(rt, std::move(task));
    const auto report = world_->run(kForever);
    ASSERT_TRUE(report.finished) << report.stuck;
  }
  const std::vector<std::string>& log_of(Runtime& rt) { return world_->log_of(rt); }

 private:
  std::unique_ptr<runtime::VirtualWorld> world_;
};

DigitsOptions limited(std::int64_t train, std::int64_t test) {
  DigitsOptions options;
  options.limit_train = train;
  options.limit_test = test;
  return options;
}

// Reads, changes and writes back the cache file.
Task<void> damage(Runtime& rt, bool truncate) {
  Result<Bytes> bytes = co_await rt.files().read(kCacheFile);
  EXPECT_TRUE(bytes.ok());
  if (truncate)
    bytes->resize(bytes->size() / 2);
  else
    (*bytes)[1'000'000] ^= std::byte{0x10};
  const Status written = co_await rt.files().write(kCacheFile, *bytes);
  EXPECT_TRUE(written.ok());
}

TEST(LoadDigits, WritesACacheReadsItBackEqualAndDrawsADamagedOneAnew) {
  OneMachine machine;
  DigitsOptions options;
  options.cache_dir = "cache/data";
  Loaded drawn, cached, redrawn;
  const TimeNs draw_time = machine.load(options, drawn);
  const TimeNs read_time = machine.load(options, cached);
  EXPECT_LT(read_time, draw_time) << "the second load drew again";
  ASSERT_EQ(drawn->pixels.size(), static_cast<std::size_t>(kDigitTrain + kDigitTest) * kPixels);
  EXPECT_TRUE(drawn->pixels == cached->pixels);
  EXPECT_TRUE(drawn->labels == cached->labels);
  EXPECT_EQ(cached->num_train, kDigitTrain);
  EXPECT_EQ(cached->num_test, kDigitTest);

  Runtime& rt = machine.new_runtime();
  machine.run(rt, damage(rt, false));
  EXPECT_GT(machine.load(options, redrawn), draw_time) << "a flipped bit went unnoticed";
  EXPECT_TRUE(redrawn->pixels == drawn->pixels);
  EXPECT_LT(machine.load(options, redrawn), draw_time) << "the cache was not written anew";

  machine.run(rt, damage(rt, true));
  EXPECT_GT(machine.load(options, redrawn), draw_time) << "a truncated file went unnoticed";
  EXPECT_TRUE(redrawn->pixels == drawn->pixels);
}

TEST(LoadDigits, WithLimitsTakesTheFirstPicturesOfTheFullSet) {
  OneMachine machine;
  Loaded few;
  machine.load(limited(50, 20), few);
  ASSERT_EQ(few->num_train, 50);
  ASSERT_EQ(few->num_test, 20);
  ASSERT_EQ(few->labels.size(), 70U);
  std::array<std::uint8_t, kPixels> image;
  for (std::int64_t i = 0; i < 70; ++i) {
    const std::int64_t index = i < 50 ? i : kDigitTrain + i - 50;
    EXPECT_EQ(few->labels[static_cast<std::size_t>(i)], draw_digit({}, index, image));
    EXPECT_TRUE(std::equal(image.begin(), image.end(), few->pixels.begin() + i * std::int64_t{kPixels})) << i;
  }
}

TEST(LoadDigits, ALimitBeyondTheSetTakesAllOfItAndALimitedSetIsNotCached) {
  OneMachine machine;
  DigitsOptions options = limited(30, 1'000'000);
  options.cache_dir = "cache/data";
  Loaded set;
  machine.load(options, set);
  EXPECT_EQ(set->num_test, kDigitTest);
  Runtime& rt = machine.new_runtime();
  bool found = true;
  machine.run(rt, [](Runtime& r, bool& out) -> Task<void> {
    const Result<bool> there = co_await r.files().exists(kCacheFile);
    out = *there;
  }(rt, found));
  EXPECT_FALSE(found);
}

TEST(LoadDigits, AreTheSameOnRealAndVirtualMachinesForAnyNumberOfThreads) {
  OneMachine machine;
  Loaded on_virtual;
  machine.load(limited(300, 100), on_virtual);
  for (const int threads : {1, 3}) {
    runtime::RealOptions options;
    options.compute_threads = threads;
    options.spin_ns = 0;
    const auto rt = runtime::make_real_runtime(options);
    Loaded on_real;
    rt->run(load_into(*rt, limited(300, 100), on_real));
    EXPECT_TRUE(on_real->pixels == on_virtual->pixels) << threads;
    EXPECT_TRUE(on_real->labels == on_virtual->labels) << threads;
  }
}

TEST(LoadDigits, AnotherSeedIsAnotherSet) {
  OneMachine machine;
  Loaded a, b;
  machine.load(limited(20, 10), a);
  DigitsOptions other = limited(20, 10);
  other.seed = 7;
  machine.load(other, b);
  EXPECT_FALSE(a->pixels == b->pixels);
}

Task<void> block_cache(Runtime& rt) {
  const Status written = co_await rt.files().write("cache", as_bytes("a file where a folder should be"));
  EXPECT_TRUE(written.ok());
}

TEST(LoadDigits, ACacheThatCannotBeWrittenIsALineInTheLogOnly) {
  OneMachine machine;
  Runtime& rt = machine.new_runtime();
  machine.run(rt, block_cache(rt));
  DigitsOptions options;
  options.cache_dir = "cache/data";
  Loaded set;
  machine.run(rt, load_into(rt, options, set));
  ASSERT_NE(set, nullptr);
  ASSERT_EQ(machine.log_of(rt).size(), 1U);
  EXPECT_NE(machine.log_of(rt)[0].find("not cached"), std::string::npos) << machine.log_of(rt)[0];
}

Dataset two_by_two() {
  Dataset set;
  set.sample_shape = {1, 2, 2};
  set.num_train = 3;
  set.pixels = {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 255};
  set.labels = {4, 9, 1};
  set.mean = 10;
  set.scale = 0.5;
  return set;
}

TEST(FillBatch, NormalisesPixelsAndPadsWithZerosOfNoWeight) {
  const Dataset set = two_by_two();
  const std::vector<std::int64_t> ids = {2, 0, -1};
  std::vector<float> images(12, 77), weights(3, 77);
  std::vector<std::int32_t> labels(3, 77);
  fill_batch(set, ids, 0.25F, images, labels, weights);
  EXPECT_EQ(images, (std::vector<float>{35, 40, 45, 122.5, -5, 0, 5, 10, 0, 0, 0, 0}));
  EXPECT_EQ(labels, (std::vector<std::int32_t>{1, 4, 0}));
  EXPECT_EQ(weights, (std::vector<float>{0.25, 0.25, 0}));
}

TEST(FillBatchDeathTest, SpansOfTheWrongLengthAreABrokenInvariant) {
  const Dataset set = two_by_two();
  const std::vector<std::int64_t> ids = {0};
  std::vector<float> images(3), weights(1);
  std::vector<std::int32_t> labels(1);
  EXPECT_DEATH(fill_batch(set, ids, 1, images, labels, weights), "images");
}

}  // namespace
}  // namespace trireme::data
