// A thousand phantom ranks: what a virtual rehearsal of a large job costs in wall time is printed, not
// asserted.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "tests/comm/ranks.h"

namespace trireme::comm {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kWorld = 64;  // one thread: what a sanitizer could find it finds in a smaller world
#else
constexpr int kWorld = 1024;
#endif
constexpr std::int64_t kLeNetParameters = 225'034;

TimeNs run_phantom(const char* algorithm) {
  const auto begin = std::chrono::steady_clock::now();
  TimeNs took = 0;
  const auto body = [&](runtime::Runtime& rt, Group& group) -> runtime::Task<void> {
    Call call;
    call.algorithm = algorithm;
    call.label = "bucket 0";
    const TimeNs start = rt.now();
    const Status s = co_await group.allreduce(call, testing::phantom_of(kLeNetParameters));
    EXPECT_TRUE(s.ok()) << s.to_string();
    took = std::max(took, rt.now() - start);
    EXPECT_TRUE((co_await group.leave()).ok());
  };
  testing::RankOptions options;
  options.world = kWorld;
  runtime::WorldSpec spec;
  spec.phantom = true;
  const auto result = testing::run_virtual(options, spec, body);
  testing::expect_finished(result);
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("  %d phantom ranks, %s: %s of virtual time, %.2f s of wall time, %llu events, %llu messages\n",
              kWorld, algorithm, format_duration(took).c_str(), wall,
              static_cast<unsigned long long>(result.report.num_events),
              static_cast<unsigned long long>(result.report.num_messages));
  return took;
}

TEST(Scale, AThousandPhantomRanksAddALeNetGradient) {
  const TimeNs ring = run_phantom("ring"), tree = run_phantom("fixed-tree");
  // 2 (P - 1) rounds of latency against about 2 log2 P.
  EXPECT_GT(ring, 2 * (kWorld - 1) * cost::LinkModel{}.latency_ns);
  if constexpr (kWorld >= 1024) {  // in a small world bandwidth decides, not rounds
    EXPECT_LT(tree, ring);
  }
}

}  // namespace
}  // namespace trireme::comm
