// Phases on a GPU: captured and replayed each on its own, with scratch memory on the device.
#include "tests/exec/segment.h"
#include "tests/exec_cuda/on_gpu.h"
#include "trireme/exec/device_queue.h"

namespace trireme::exec {
namespace {

class DevicePhases : public OnGpu {
 protected:
  static void poison(const Buffer& scratch) {
    const Buffer nan = *cpu_device().allocate(scratch.size_bytes());
    std::fill_n(nan.data(), nan.size_bytes(), std::byte{0xFF});
    EXPECT_TRUE(device()->copy(nan, scratch, nullptr).ok());
  }
};

// Two Executions take turns; the third and later runs replay what the second one captured.
TEST_F(DevicePhases, OverOneScratchMemoryGiveTheBitsOfWholeRuns) {
  const Graph g = segment();
  const auto plain = compiled(g), parts = compiled(g, {.phases = segment_phases()});
  ASSERT_GT(parts->scratch_bytes(), 0);
  EXPECT_EQ(parts->outline().phase_of.size(), parts->outline().strands.size());
  EXPECT_EQ(parts->outline().phase_of.back(), 2);
  for (const bool queued : {false, true}) {
    SCOPED_TRACE(queued ? "queued" : "waited for");
    on_real([&](Runtime& rt) -> Task<void> {
      const auto queue = queued ? std::make_shared<DeviceQueue>(device()) : nullptr;
      const Buffer scratch = *device()->allocate(static_cast<std::size_t>(parts->scratch_bytes()));
      std::vector<Feeds> feeds{segment_feeds(g, 0), segment_feeds(g, 1)};
      Variables v = variables_of(g, feeds[0]);
      std::vector<Outputs> want;
      std::vector<std::unique_ptr<Execution>> all;
      for (const Feeds& f : feeds) {
        auto whole = *make_execution(rt, plain, {.variables = &v});
        EXPECT_TRUE(feed_all(*whole, g, f).ok());
        EXPECT_TRUE((co_await whole->run()).ok());
        want.push_back(fetch_all(*whole, g));
        all.push_back(*make_execution(rt, parts, {.variables = &v, .scratch = scratch, .queue = queue}));
      }
      for (int repeat = 0; repeat < 4; ++repeat)
        for (int phase = 0; phase < 3; ++phase)
          for (std::size_t m = 0; m < 2; ++m) {
            const char* const input = phase == 0 ? "x" : "dy";
            if (phase < 2) {
              EXPECT_TRUE(all[m]->feed(input, feeds[m].at(input)).ok());
            }
            if (!queued) poison(scratch);
            const Status ran = co_await all[m]->run({.phase = phase});
            EXPECT_TRUE(ran.ok()) << ran.to_string();
            if (phase == 2) {
              EXPECT_EQ(fetch_all(*all[m], g), want[m]) << "repeat " << repeat << ", Execution " << m;
            }
          }
    });
  }
}

TEST_F(DevicePhases, RefuseScratchMemoryOfTheHost) {
  const Graph g = segment();
  const auto parts = compiled(g, {.phases = segment_phases()});
  on_real([&](Runtime& rt) -> Task<void> {
    Variables v = variables_of(g, segment_feeds(g, 0));
    const Buffer scratch = *cpu_device().allocate(static_cast<std::size_t>(parts->scratch_bytes()));
    EXPECT_EQ(make_execution(rt, parts, {.variables = &v, .scratch = scratch}).status().code(),
              Code::kInvalid);
    co_return;
  });
}

}  // namespace
}  // namespace trireme::exec
