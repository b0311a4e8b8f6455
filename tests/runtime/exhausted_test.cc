// A program without memory, threads or descriptors ends with a line and a code, not by a signal.
#include "trireme/runtime/real/exhausted.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>
#include <vector>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime {
namespace {

using ::testing::ExitedWithCode;

void limit(int what, rlim_t most) {
  const rlimit limits{most, most};
  setrlimit(static_cast<__rlimit_resource>(what), &limits);
}

std::unique_ptr<RealRuntime> small() {
  RealOptions options;
  options.compute_threads = 1;
  return make_real_runtime(options);
}

#ifndef __SANITIZE_THREAD__  // its own operator new ends the process first
TEST(ExhaustedDeathTest, MemoryThatCannotBeHadIsALine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto too_much = [] {
    end_plainly_when_exhausted(3);
    const std::vector<char> most(std::size_t{1} << 60);
    std::exit(most[7]);
  };
  EXPECT_EXIT(too_much(), ExitedWithCode(3), "error: out of memory");
}
#endif

TEST(ExhaustedDeathTest, ATaskWithoutMemoryIsALineToo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto in_a_task = [] {
    end_plainly_when_exhausted(1);
    const auto rt = small();
    rt->run([]() -> Task<void> {
      throw std::bad_alloc();
      co_return;
    }());
  };
  EXPECT_EXIT(in_a_task(), ExitedWithCode(1), "error: out of memory");
}

TEST(ExhaustedDeathTest, ALoopWithoutDescriptorsNamesTheLimit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto no_files = []() noexcept {  // as from main(): gtest would catch
    end_plainly_when_exhausted(1);
    limit(RLIMIT_NOFILE, 4);
    small();
  };
  EXPECT_EXIT(no_files(), ExitedWithCode(1),
              "error: .*Too many open files; this process may open 4 files .ulimit -n.");
}

TEST(Exhausted, WhoCatchesMayGoOn) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{3, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  EXPECT_THROW(small(), CannotStart);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(small(), nullptr);
}

TEST(ExhaustedDeathTest, OtherExceptionsStillAbort) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto mistake = [] {
    end_plainly_when_exhausted(1);
    std::thread([] { throw std::logic_error("a mistake of ours"); }).join();
  };
  EXPECT_DEATH(mistake(), "an exception was not caught: a mistake of ours");
}

}  // namespace
}  // namespace trireme::runtime
