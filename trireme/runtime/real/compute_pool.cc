#include "trireme/runtime/real/compute_pool.h"

#include <algorithm>
#include <chrono>

#include "trireme/runtime/real/exhausted.h"
#include "trireme/runtime/real/start_thread.h"

namespace trireme::runtime::real {

namespace {
constexpr std::uint64_t kMaxSlices = 0xFFFF;
int slices_of(std::uint64_t ticket) { return static_cast<int>((ticket >> 16) & kMaxSlices); }
int next_of(std::uint64_t ticket) { return static_cast<int>(ticket & kMaxSlices); }
}  // namespace

class ComputePool::Context final : public ComputeContext {
 public:
  Context(ComputePool& pool, Region& region, int width) : pool_(pool), region_(region), width_(width) {}
  int width() const override { return width_; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    if (n <= 0) return;
    if (width_ == 1) return body(0, n, 0);
    pool_.parallel_for(region_, width_, n, body);
  }

 private:
  ComputePool& pool_;
  Region& region_;
  const int width_;
};

ComputePool::ComputePool(int num_threads, TimeNs spin_ns, std::function<void(Job*)> finished,
                         double slow_factor)
    : spin_ns_(spin_ns), finished_(std::move(finished)), slow_factor_(slow_factor) {
  for (int i = 0; i < num_threads; ++i) workers_.push_back(std::make_unique<Worker>());
  try {
    for (auto& worker : workers_) worker->thread = start_quiet_thread([this, w = worker.get()] { work(*w); });
  } catch (const CannotStart&) {
    stop();
    throw;
  }
}

ComputePool::~ComputePool() { stop(); }

void ComputePool::stop() {
  stopping_.store(true);
  announce(num_threads());
  for (auto& worker : workers_)
    if (worker->thread.joinable()) worker->thread.join();
}

void ComputePool::submit(Job* job) {
  TR_CHECK(job->request.width >= 1 && job->request.width <= static_cast<int>(kMaxSlices), "compute width {}",
           job->request.width);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(job);
    num_queued_.store(queue_.size(), std::memory_order_relaxed);
  }
  announce(1);
}

// Makes news visible and wakes up to `num_wanted` blocked workers; spinning ones see the news by themselves.
void ComputePool::announce(int num_wanted) {
  news_.fetch_add(1, std::memory_order_release);
  for (auto& worker : workers_) {
    if (num_wanted == 0) return;
    if (worker->bell.ring()) --num_wanted;
  }
}

void ComputePool::work(Worker& self) {
  while (!stopping_.load(std::memory_order_acquire)) {
    const std::uint64_t seen = news_.load(std::memory_order_acquire);
    if (run_next(self) || help_somebody()) continue;
    self.bell.wait(spin_ns_, [this, seen] {
      return news_.load(std::memory_order_acquire) != seen || stopping_.load(std::memory_order_acquire);
    });
  }
}

int ComputePool::charge_of(const Job& job) const { return std::min(job.request.width, num_threads()); }

bool ComputePool::head_fits_locked() const {
  return !queue_.empty() && width_in_use_ + charge_of(*queue_.front()) <= num_threads();
}

bool ComputePool::run_next(Worker& self) {
  if (num_queued_.load(std::memory_order_relaxed) == 0) return false;
  Job* job = nullptr;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    if (!head_fits_locked()) return false;
    job = queue_.front();
    queue_.pop_front();
    num_queued_.store(queue_.size(), std::memory_order_relaxed);
    width_in_use_ += charge_of(*job);
    more = head_fits_locked();
  }
  if (more) announce(1);
  const int charge = charge_of(*job);
  Context context(*this, self.region, job->request.width);
  if (slow_factor_ > 1) {
    run_slowly(self, job->request, context);
  } else {
    job->request.fn(context);
  }
  finished_(job);  // the job is gone after this
  {
    const std::lock_guard lock(mutex_);
    width_in_use_ -= charge;
  }
  return true;  // this worker looks at the queue again, and wakes others if more than one request fits now
}

// A short sleep takes longer than it is asked to, so small debts are collected and the rest is carried over.
void ComputePool::run_slowly(Worker& self, ComputeRequest& request, ComputeContext& context) const {
  using Clock = std::chrono::steady_clock;
  constexpr double kWorthASleep = 2e-4;  // seconds
  const auto seconds_since = [](Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  };
  const auto before = Clock::now();
  request.fn(context);
  self.owed_seconds += (slow_factor_ - 1) * seconds_since(before);
  if (self.owed_seconds < kWorthASleep) return;
  const auto asleep = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(self.owed_seconds));
  self.owed_seconds -= seconds_since(asleep);
}

bool ComputePool::help_somebody() {
  bool helped = false;
  for (auto& worker : workers_)
    while (run_one_slice(worker->region)) helped = true;
  return helped;
}

bool ComputePool::run_one_slice(Region& region) {
  std::uint64_t ticket = region.ticket.load(std::memory_order_acquire);
  do {
    if (next_of(ticket) >= slices_of(ticket)) return false;
  } while (!region.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                                std::memory_order_acquire));
  const std::int64_t width = slices_of(ticket), slice = next_of(ticket);
  const std::int64_t begin = region.n * slice / width, end = region.n * (slice + 1) / width;
  if (begin < end) (*region.body)(begin, end, static_cast<int>(slice));
  // Counting down ends this thread's right to the fields; the bell itself lives as long as the pool.
  if (region.unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) region.owner.ring();
  return true;
}

void ComputePool::parallel_for(Region& region, int width, std::int64_t n,
                               const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  const std::uint64_t old = region.ticket.load(std::memory_order_relaxed);
  TR_CHECK(next_of(old) >= slices_of(old) && region.unfinished.load(std::memory_order_relaxed) == 0,
           "parallel_for does not nest");
  region.n = n;
  region.body = &body;
  region.unfinished.store(width, std::memory_order_relaxed);
  const std::uint64_t generation = (old >> 32) + 1;
  region.ticket.store(generation << 32 | static_cast<std::uint64_t>(width) << 16, std::memory_order_release);
  announce(std::min(width, num_threads()) - 1);
  while (run_one_slice(region)) {
  }
  const auto all_done = [&region] { return region.unfinished.load(std::memory_order_acquire) == 0; };
  while (!all_done()) region.owner.wait(spin_ns_, all_done);
}

}  // namespace trireme::runtime::real
