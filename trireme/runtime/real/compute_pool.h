// The compute pool: a fixed number of threads that run compute functions and help their parallel loops.
//
// Requests start in order of arrival, the widths of those running together at most the number of threads (a
// wider one runs alone). parallel_for publishes its slices in the region of the worker that runs the
// function; idle workers claim them, the caller claims too, and it waits only for slices that somebody has
// already begun: no deadlock when all threads are busy, and no allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "trireme/runtime/real/wait.h"
#include "trireme/runtime/runtime.h"

namespace trireme::runtime::real {

class ComputePool {
 public:
  // `finished(job)` is called on a pool thread after a job's fn returned.
  struct Job {
    ComputeRequest request;
  };
  // `slow_factor` > 1: after a function of t its thread sleeps (slow_factor - 1) t before the job is
  // finished.
  ComputePool(int num_threads, TimeNs spin_ns, std::function<void(Job*)> finished, double slow_factor = 1);
  ~ComputePool();  // stop()

  void submit(Job* job);  // any thread; the job stays the caller's and must live until finished
  // Lets running functions end, leaves the rest unstarted and joins the threads.
  void stop();
  int num_threads() const { return static_cast<int>(workers_.size()); }

 private:
  // The slices of one parallel_for. `ticket` = generation << 32 | number of slices << 16 | next slice to
  // claim: whoever moves it from s to s + 1 owns slice s, and the fields cannot change before that slice is
  // counted in `unfinished`.
  struct alignas(64) Region {
    std::atomic<std::uint64_t> ticket{0};
    std::int64_t n = 0;
    const std::function<void(std::int64_t, std::int64_t, int)>* body = nullptr;
    alignas(64) std::atomic<int> unfinished{0};  // apart from the ticket, which others still claim
    FutexBell owner;
  };
  struct Worker {
    FutexBell bell;
    Region region;
    double owed_seconds = 0;  // sleep that is too short to be had by itself
    std::thread thread;
  };
  class Context;

  void work(Worker& self);
  bool run_next(Worker& self);
  bool help_somebody();
  void run_slowly(Worker& self, ComputeRequest& request, ComputeContext& context) const;
  static bool run_one_slice(Region& region);
  void parallel_for(Region& region, int width, std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body);
  void announce(int num_wanted);
  bool head_fits_locked() const;
  int charge_of(const Job& job) const;

  const TimeNs spin_ns_;
  const std::function<void(Job*)> finished_;
  const double slow_factor_;
  std::vector<std::unique_ptr<Worker>> workers_;
  alignas(64) std::atomic<std::uint64_t> news_{0};  // grows whenever an idle worker should look around again
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;
  std::deque<Job*> queue_;  // guarded by mutex_
  // Its length, changed before news: workers that come for slices do not meet at the mutex.
  std::atomic<std::size_t> num_queued_{0};
  int width_in_use_ = 0;  // guarded by mutex_
};

}  // namespace trireme::runtime::real
