#include "trireme/runtime/real/real_runtime.h"

#include <signal.h>

#include <chrono>
#include <deque>
#include <list>
#include <thread>

#include "trireme/runtime/real/compute_pool.h"
#include "trireme/runtime/real/exhausted.h"
#include "trireme/runtime/real/interrupts.h"
#include "trireme/runtime/real/io_thread.h"
#include "trireme/runtime/real/loop.h"
#include "trireme/runtime/real/net/fabric.h"
#include "trireme/runtime/real/net/real_network.h"
#include "trireme/runtime/real/real_files.h"
#include "trireme/runtime/real/real_processes.h"
#include "trireme/runtime/real/start_thread.h"

namespace trireme::runtime {
namespace {

class RealRuntimeImpl final : public RealRuntime {
 public:
  explicit RealRuntimeImpl(RealOptions options)
      : options_(std::move(options)),
        loop_(options_.spin_ns),
        io_(loop_),
        files_(real::make_real_files(*this, io_)),
        network_(real::make_real_network(*this, loop_, options_.fabric ? options_.fabric : make_fabric(),
                                         options_.resolve)),
        processes_(real::make_real_processes(*this, loop_)),
        pool_(
            options_.compute_threads > 0 ? options_.compute_threads : num_cores(), options_.spin_ns,
            [this](real::ComputePool::Job* job) { loop_.post([this, job] { finish_compute(job); }); },
            options_.slow_factor) {}

  // Threads first: then nothing touches the frames that die. The rest of the Runtime works until the last
  // frame is gone.
  ~RealRuntimeImpl() override {
    pool_.stop();
    io_.stop();
    while (!roots_.empty()) roots_.pop_back();
    loop_.discard_callbacks();
  }

  void run(Task<void> task) override {
    bool done = false;
    spawn(note_end(std::move(task), done));
    loop_.run_until([&] {
      reap();
      return done;
    });
  }

  const std::string& name() const override { return options_.name; }
  bool is_virtual() const override { return false; }
  bool is_phantom() const override { return false; }
  TimeNs now() const override { return loop_.now(); }
  std::int64_t unix_time_ns() const override {
    return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  }

  void spawn(Task<void> task) override {
    Root& root = roots_.emplace_back();
    root.self = std::prev(roots_.end());
    root.task = run_root(std::move(task), root);
    loop_.post([&root] { root.task.start(); });
  }
  void post(Callback fn) override { loop_.post(std::move(fn)); }
  TimerId call_at(TimeNs when, Callback fn) override { return loop_.timers().add(when, std::move(fn)); }
  void cancel_timer(TimerId id) override { loop_.timers().cancel(id); }

  void start_compute(ComputeRequest request) override {
    if (free_jobs_.empty()) free_jobs_.push_back(&jobs_.emplace_back());
    real::ComputePool::Job* job = free_jobs_.back();
    free_jobs_.pop_back();
    job->request = std::move(request);
    ++compute_in_flight_;
    pool_.submit(job);
  }
  int compute_threads() const override { return pool_.num_threads(); }
  Activity activity() const override { return {compute_in_flight_, io_.num_in_flight()}; }

  Files& files() override { return *files_; }
  Network& network() override { return *network_; }
  Processes& processes() override { return *processes_; }

  void on_interrupt(Callback fn) override {
    interrupts_.reset();
    if (fn) interrupts_ = real::make_interrupts(loop_, std::move(fn));
  }

  FaultAction fault_point(std::string_view site, std::uint64_t index) override {
    FaultAction action = FaultAction::kNone;
    for (const RealFault& fault : options_.faults) {
      if (fault.site != site || fault.index != index) continue;
      switch (fault.kind) {
        case RealFault::Kind::kKill:
          raise(SIGKILL);
          break;
        case RealFault::Kind::kPause:
          raise(SIGSTOP);
          break;
        case RealFault::Kind::kMiscall:
          action = FaultAction::kMiscall;
          break;
        case RealFault::Kind::kError:
          action = FaultAction::kError;
          break;
      }
    }
    return action;
  }

  void log(std::string_view line) override {
    if (options_.log_sink) options_.log_sink(line);
  }

 private:
  struct Root {
    Task<void> task;
    std::list<Root>::iterator self;
  };

  Task<void> run_root(Task<void> task, Root& root) {
    co_await std::move(task);
    ended_.push_back(root.self);
  }
  static Task<void> note_end(Task<void> task, bool& done) {
    co_await std::move(task);
    done = true;
  }
  // A Task cannot destroy its own frame while it runs, so the loop does it between turns.
  void reap() {
    while (!ended_.empty()) {
      const auto root = ended_.back();
      ended_.pop_back();
      roots_.erase(root);
    }
  }

  void finish_compute(real::ComputePool::Job* job) {
    const ComputeFn ran = std::move(job->request.fn);
    Callback done = std::move(job->request.done);
    free_jobs_.push_back(job);
    --compute_in_flight_;
    if (done) done();
  }

  const RealOptions options_;
  real::Loop loop_;
  real::IoThread io_;
  std::unique_ptr<Files> files_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Processes> processes_;
  std::unique_ptr<real::Interrupts> interrupts_;
  std::deque<real::ComputePool::Job> jobs_;  // stable addresses, reused
  std::vector<real::ComputePool::Job*> free_jobs_;
  int compute_in_flight_ = 0;
  std::list<Root> roots_;
  std::vector<std::list<Root>::iterator> ended_;
  real::ComputePool pool_;
};

}  // namespace

std::unique_ptr<RealRuntime> make_real_runtime(RealOptions options) {
  return std::make_unique<RealRuntimeImpl>(std::move(options));
}

void run_in_threads(std::vector<std::function<void()>> bodies) {
  std::vector<std::thread> threads;
  threads.reserve(bodies.size());
  try {
    for (auto& body : bodies) threads.push_back(real::start_thread(std::move(body)));
  } catch (const CannotStart&) {
    std::terminate();  // those that run would wait for the missing one for ever
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace trireme::runtime
