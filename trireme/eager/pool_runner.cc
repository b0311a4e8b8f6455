#include "trireme/eager/pool_runner.h"

#include "trireme/runtime/real/compute_pool.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::eager {
namespace {

using runtime::real::ComputePool;

// Idle workers sleep at once: the program sets the pace.
constexpr TimeNs kNoSpin = 0;

class PoolRunner final : public CallRunner {
 public:
  explicit PoolRunner(int num_threads)
      : pool_(num_threads, kNoSpin, [](ComputePool::Job* job) { delete job; }) {}

  void start(Callback work) override {
    auto job = std::make_unique<ComputePool::Job>();
    job->request = {.cost = {},
                    .width = 1,
                    .label = "call",
                    .fn = [work = std::move(work)](runtime::ComputeContext&) mutable { work(); },
                    .done = [] {}};
    pool_.submit(job.release());  // comes back to the pool's `finished`
  }
  void wait(const std::atomic<bool>& done) override { done.wait(false, std::memory_order_acquire); }

 private:
  ComputePool pool_;
};

}  // namespace

std::unique_ptr<CallRunner> make_pool_runner(int num_threads) {
  return std::make_unique<PoolRunner>(num_threads > 0 ? num_threads : runtime::num_cores());
}

}  // namespace trireme::eager
