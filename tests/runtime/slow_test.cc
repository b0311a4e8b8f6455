// A straggler on purpose: compute takes its factor, whatever the size of the pieces.
#include <gtest/gtest.h>

#include <chrono>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

Task<void> work(Runtime& rt, int pieces, double piece_seconds, double& computed) {
  for (int i = 0; i < pieces; ++i)
    co_await rt.compute({}, [&](ComputeContext&) {
      const auto begin = Clock::now();
      while (seconds_since(begin) < piece_seconds) {
      }
      computed += seconds_since(begin);
    });
}

TEST(SlowRuntime, TakesItsFactorInLargeAndInSmallPieces) {
  constexpr double kOwed = 1e-3;  // less than this may be left unslept
  for (const auto& [pieces, piece_seconds] : {std::pair{2, 5e-3}, std::pair{200, 2e-5}}) {
    RealOptions options;
    options.compute_threads = 1;
    options.slow_factor = 4;
    const auto rt = make_real_runtime(options);
    double computed = 0;
    const auto begin = Clock::now();
    rt->run(work(*rt, pieces, piece_seconds, computed));
    EXPECT_GE(seconds_since(begin), 4 * computed - kOwed) << pieces << " pieces";
  }
}

}  // namespace
}  // namespace trireme::runtime
