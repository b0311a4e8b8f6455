// The state of one Execution: what runs, what waits, what memory it has. Internal to exec.
//
// All bookkeeping happens on the loop; strands run on compute requests and touch only their own kernel calls
// and memory, so nothing here is locked. Requests and host ops hold the RunState by shared_ptr: an Execution
// that goes while work is under way (its Runtime stops, its task is destroyed) leaves memory that is still
// written in place until that work has ended.
#pragma once

#include <coroutine>
#include <memory>
#include <vector>

#include "trireme/exec/compiled.h"
#include "trireme/exec/device_run.h"
#include "trireme/exec/executor.h"
#include "trireme/exec/node_times.h"

namespace trireme::exec {

// A strand's threads as kernels see them. The context changes with every request, the address does not.
class StrandParallel final : public op::Parallel {
 public:
  explicit StrandParallel(int width) : width_(width) {}
  int width() const override { return width_; }
  void parallel_for(std::int64_t n,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body) override {
    context->parallel_for(n, body);
  }
  runtime::ComputeContext* context = nullptr;

 private:
  int width_;
};

struct KernelCall {
  op::KernelFn run;
  op::KernelArgs args;
};

struct StrandState {
  explicit StrandState(int width) : parallel(width) {}
  StrandParallel parallel;
  std::size_t first_call = 0, end_call = 0;
  std::int32_t waiting = 0;
  HostOp* host = nullptr;
};

// Strands or notices of a phase, in the order in which they came; the capacity is set once.
struct WorkList {
  std::vector<std::int32_t> items;
  std::size_t next = 0;
  bool is_done() const { return next == items.size(); }
  void push(std::int32_t item) { items.push_back(item); }
  std::int32_t take() { return items[next++]; }
  void clear() {
    items.clear();
    next = 0;
  }
};

struct RunState : std::enable_shared_from_this<RunState> {
  RunState(runtime::Runtime& runtime, std::shared_ptr<const CompiledPlan> compiled)
      : rt(runtime), plan(std::move(compiled)), values(plan->program) {}

  Tensor value_at(Value v, const Buffer& buffer, std::size_t offset) const {
    return Tensor(buffer, plan->program.type(v), offset);
  }
  std::span<const Tensor> inputs_of(std::int32_t node) const {
    return {&slots[plan->node_plan(node).first_slot], plan->program.node(node).inputs.size()};
  }
  std::span<const Tensor> outputs_of(std::int32_t node) const {
    const graph::Node& n = plan->program.node(node);
    return {&slots[plan->node_plan(node).first_slot] + n.inputs.size(), n.outputs.size()};
  }

  void begin(const RunOptions& how);
  void begin_phase(std::int32_t p);
  void start(std::int32_t strand);
  void start_on_device(std::int32_t strand);
  void run_calls(std::int32_t strand, runtime::ComputeContext& context);
  void run_timed(std::int32_t strand);
  void note_end(std::int32_t strand);  // of the profile
  // Bookkeeping, then settle(). `point`: where notices of it are true.
  void ended(std::int32_t strand, Status status, const std::shared_ptr<Event>& point = nullptr);
  void settle();
  void start_ready();
  void end_if_done();
  void tell_held();
  // The first failure ends the run: nothing starts any more, and host calls under way are cancelled.
  void fail(Status why);
  // Whoever awaited the run is gone. Host calls hear it from the loop, if the loop still runs.
  void abandon();
  void open(std::int32_t gate);
  void cancel(Status why);
  void give_notice(std::int32_t notice, const std::shared_ptr<Event>& point) {
    const auto n = static_cast<std::size_t>(notice);
    if (point != nullptr) notice_point[n] = point;  // the last one: strands come to the GPU in order
    if (--notice_waiting[n] == 0) due.push(notice);
  }
  static runtime::Task<void> run_host(std::shared_ptr<RunState> self, std::int32_t strand);

  runtime::Runtime& rt;
  std::shared_ptr<const CompiledPlan> plan;
  struct {
    Buffer arena, scratch;
    const Buffer& workspaces() const { return scratch.is_null() ? arena : scratch; }
  } memory;
  graph::ValueMap<Tensor> values;
  std::vector<Tensor> slots;
  std::vector<KernelCall> calls;  // strand after strand; empty on a phantom Runtime
  std::vector<StrandState> strands;
  std::vector<std::int32_t> notice_waiting;
  std::vector<std::shared_ptr<Event>> notice_point;
  struct {
    Function<void(int, std::shared_ptr<Event>)> notice;
    Function<void()> held;
  } listeners;
  std::unique_ptr<NodeTimes> times;  // null: nobody asked for a profile
  std::unique_ptr<DeviceRun> gpu;    // null: kernels run on the host
  std::vector<std::int32_t>
      on_device;  // strands for the GPU, which runs one after the other; the first is there now

  WorkList ready, due;  // strands; notices
  struct {
    std::int32_t first = 0, now = 0, last = 0;  // of the run under way
    std::int32_t begun = 0;                     // those before it have outputs to fetch; 0 after a failure
  } phase;
  struct {
    int all = 0, hosts = 0;  // strands; of them host ops
  } in_flight;
  bool running = false, settling = false;
  std::vector<char> gate_open;
  int closed_gates = 0;  // that strands of this phase wait for
  struct Pause {
    TimeNs since = -1, ns = 0;  // since -1: it is not now
    void end(TimeNs now) {
      if (since >= 0) ns += now - since;
      since = -1;
    }
  };
  Pause held;  // all that could run has run, and gates are closed
  Pause met;   // nothing but host ops is under way
  Status status;
  RunOptions how;              // of the run under way
  runtime::CancelToken token;  // of its host calls; a new one after a run that failed
  runtime::TimerId deadline_timer = 0;
  std::coroutine_handle<> waiter;
};

}  // namespace trireme::exec
