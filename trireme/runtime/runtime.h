// Runtime: everything a rank gets from the world, behind one interface with two implementations.
//
//   real    (runtime/real/):    one loop thread per Runtime, a compute pool, the operating system.
//   virtual (runtime/virtual/): many Runtimes in one thread and one virtual clock, machines and links by
//                               model, faults from a seed. The same seed gives the same trace.
//
// No product code reaches clocks, threads, sleeps, sockets, processes or files any other way.
//
// Threads: every method is called on the Runtime's loop, except post(), which any thread may call, and the
// methods of ComputeContext, which the running compute function calls. Callbacks and Tasks run on the loop,
// one at a time, never inside the call that caused them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "trireme/base/function.h"
#include "trireme/base/status.h"
#include "trireme/base/units.h"
#include "trireme/cost/cost.h"
#include "trireme/runtime/task.h"

namespace trireme::runtime {

class Files;      // files.h
class Network;    // network.h
class Processes;  // processes.h

// What a compute function gets: the threads it may use. parallel_for cuts [0, n) into exactly `width` fixed
// slices (empty ones are skipped), so results depend on the width, never on which threads ran the slices or
// how many were free.
class ComputeContext {
 public:
  virtual ~ComputeContext() = default;
  virtual int width() const = 0;
  // Runs body(begin, end, slice) for every slice, the caller helping; returns when all are done. Does not
  // nest.
  virtual void parallel_for(std::int64_t n,
                            const std::function<void(std::int64_t, std::int64_t, int)>& body) = 0;
};

using ComputeFn = Function<void(ComputeContext&)>;

struct ComputeRequest {
  cost::OpCost cost;       // what virtual time charges
  int width = 1;           // threads it may use, and the number of slices
  const char* label = "";  // for traces; static storage
  ComputeFn fn;            // runs on the pool (real) or inline (virtual); skipped on a phantom Runtime
  Callback done;           // on the loop, after fn
};

using TimerId = std::uint64_t;

// Named places where a fault may be injected (`fault_point`), e.g. {"collective", 7}.
enum class FaultAction : std::uint8_t {
  kNone,
  kMiscall,  // the caller shall do the wrong thing on purpose (call a different collective)
  kError,    // the caller shall report a failure of the world
  // Kill and pause are carried out by the Runtime: a real process does not return from the call, a virtual
  // rank is cut off from the world (nothing it does takes effect) and is never resumed (kill) or resumed
  // later (pause).
};

// What a rank is doing, for heartbeats: a rank with compute or file work under way is alive however long that
// takes.
struct Activity {
  int compute_in_flight = 0;
  int io_in_flight = 0;
  bool busy() const { return compute_in_flight + io_in_flight > 0; }
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual const std::string& name() const = 0;
  virtual bool is_virtual() const = 0;
  // True when kernels and payload copies are skipped and only sizes travel.
  virtual bool is_phantom() const = 0;

  // Clock: monotonic, starts near 0. The only time that may influence a decision.
  virtual TimeNs now() const = 0;
  // Calendar time for log stamps and file names only (virtual: a fixed date + now()).
  virtual std::int64_t unix_time_ns() const = 0;

  // Tasks. spawn() starts a Task that nobody awaits; the Runtime owns it until it ends or the Runtime is
  // destroyed.
  virtual void spawn(Task<void> task) = 0;
  // Runs `fn` on the loop soon. Any thread.
  virtual void post(Callback fn) = 0;

  // Timers: `fn` runs at `when` (or soon, when it is past). Cancelling a fired or unknown timer does nothing.
  virtual TimerId call_at(TimeNs when, Callback fn) = 0;
  virtual void cancel_timer(TimerId id) = 0;

  // Compute. Requests start in order of their arrival when enough threads are free.
  virtual void start_compute(ComputeRequest request) = 0;
  virtual int compute_threads() const = 0;
  virtual Activity activity() const = 0;

  // Awaitable form: `co_await rt.compute(cost, fn)`. A Task destroyed meanwhile is not resumed, but `fn` may
  // still run: what it refers to must outlive it (only the end of the Runtime waits for running functions
  // first).
  auto compute(cost::OpCost op_cost, ComputeFn fn, int width = 1, const char* label = "");
  // Awaitable: resumes at `when`.
  auto sleep_until(TimeNs when);
  auto sleep_for(TimeNs duration);

  virtual Files& files() = 0;
  virtual Network& network() = 0;
  virtual Processes& processes() = 0;

  // Requests to stop (SIGINT, SIGTERM, the first SIGHUP): `fn` runs on the loop for each. Replaces
  // the last handler; empty restores the default (the process ends).
  virtual void on_interrupt(Callback fn) = 0;

  // Faults injected from a seed (virtual) or by the command line (real). `site` and `index` name the place.
  virtual FaultAction fault_point(std::string_view site, std::uint64_t index) = 0;

  // One line for this rank's log.
  virtual void log(std::string_view line) = 0;
};

inline auto Runtime::compute(cost::OpCost op_cost, ComputeFn fn, int width, const char* label) {
  struct Awaiter {
    Awaiter(Runtime& runtime, ComputeRequest r) : rt(runtime), request(std::move(r)) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    ~Awaiter() {
      if (waiting) *waiting = false;
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) {
      waiting = std::make_shared<bool>(true);
      request.done = [h, still = waiting] {
        if (*still) h.resume();
      };
      rt.start_compute(std::move(request));
    }
    void await_resume() {}
    Runtime& rt;
    ComputeRequest request;
    std::shared_ptr<bool> waiting;  // false: the frame is gone, do not resume it
  };
  return Awaiter(*this, {op_cost, width, label, std::move(fn), {}});
}

inline auto Runtime::sleep_until(TimeNs when) {
  struct Awaiter {
    Awaiter(Runtime& runtime, TimeNs time) : rt(runtime), when(time) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) {
      timer = rt.call_at(when, [this, h] {
        timer = 0;
        h.resume();
      });
    }
    void await_resume() {}
    ~Awaiter() {
      if (timer != 0) rt.cancel_timer(timer);
    }
    Runtime& rt;
    TimeNs when;
    TimerId timer = 0;
  };
  return Awaiter(*this, when);
}

inline auto Runtime::sleep_for(TimeNs duration) { return sleep_until(now() + duration); }

}  // namespace trireme::runtime
