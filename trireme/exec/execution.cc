// One instance of a compiled graph. All bookkeeping happens on the loop; strands run on compute requests and
// touch only their own kernel calls and memory, so nothing here is locked.
//
// Requests and host ops hold the RunState by shared_ptr: an Execution that goes while work is under way (its
// Runtime stops, its task is destroyed) leaves memory that is still written in place until that work has
// ended.
#include <fmt/format.h>
#include <algorithm>
#include <coroutine>
#include <cstring>

#include "trireme/base/units.h"
#include "trireme/exec/compiled.h"
#include "trireme/exec/device_run.h"
#include "trireme/exec/executor.h"
#include "trireme/exec/node_times.h"

namespace trireme::exec {
namespace {

using runtime::Task;

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

  void begin();
  void start(std::int32_t strand);
  void start_on_device(std::int32_t strand);
  void run_calls(std::int32_t strand, runtime::ComputeContext& context);
  void run_timed(std::int32_t strand);
  void note_end(std::int32_t strand);              // of the profile
  void ended(std::int32_t strand, Status status);  // bookkeeping, then settle()
  void settle();
  void start_ready();
  void end_if_done();
  void end_hold();
  void open(std::int32_t gate);
  void cancel(Status why);
  void give_notice(std::int32_t notice) {
    if (--notice_waiting[static_cast<std::size_t>(notice)] == 0) due.push_back(notice);
  }
  static Task<void> run_host(std::shared_ptr<RunState> self, std::int32_t strand);
  static Task<Status> run_beside_device(RunState& self, HostOp& host, std::int32_t node);

  runtime::Runtime& rt;
  std::shared_ptr<const CompiledPlan> plan;
  Buffer arena;
  graph::ValueMap<Tensor> values;
  std::vector<Tensor> slots;
  std::vector<KernelCall> calls;  // strand after strand; empty on a phantom Runtime
  std::vector<StrandState> strands;
  std::vector<std::int32_t> notice_waiting;
  Function<void(int, std::shared_ptr<Event>)> listener;
  std::unique_ptr<NodeTimes> times;  // null: nobody asked for a profile
  std::unique_ptr<DeviceRun> gpu;    // null: kernels run on the host
  std::vector<std::int32_t>
      on_device;  // strands for the GPU, which runs one after the other; the first is there now

  // Work lists of a run; their capacity is set once.
  std::vector<std::int32_t> ready, due;
  std::size_t next_ready = 0, next_due = 0;
  int in_flight = 0;
  bool running = false, settling = false, has_values = false;
  std::vector<char> gate_open;
  int closed_gates = 0;  // of this run, that strands wait for
  TimeNs held_since = -1, held_ns = 0;
  Status status;
  std::coroutine_handle<> waiter;
};

void RunState::begin() {
  running = true;
  has_values = true;
  status = {};
  ready.clear();
  due.clear();
  next_ready = next_due = 0;
  if (gpu) gpu->begin();
  if (times) times->run_begins(rt.now());
  held_since = -1;
  held_ns = 0;
  closed_gates = 0;
  for (std::size_t s = 0; s < strands.size(); ++s) strands[s].waiting = plan->part.strands[s].num_before;
  for (std::size_t g = 0; g < gate_open.size(); ++g) {
    const std::vector<std::int32_t>& waiting = plan->part.gate_strands[g];
    if (gate_open[g] == 0 && !waiting.empty()) ++closed_gates;
    for (const std::int32_t s : waiting) strands[static_cast<std::size_t>(s)].waiting -= gate_open[g];
  }
  for (std::size_t s = 0; s < strands.size(); ++s)
    if (strands[s].waiting == 0) ready.push_back(static_cast<std::int32_t>(s));
  for (std::size_t n = 0; n < notice_waiting.size(); ++n) {
    notice_waiting[n] = plan->part.notice_before[n];
    if (notice_waiting[n] == 0) due.push_back(static_cast<std::int32_t>(n));
  }
  settle();
}

void RunState::start(std::int32_t strand) {
  ++in_flight;
  if (times) times->strand_begins(strand, rt.now());
  const Strand& s = plan->part.strands[static_cast<std::size_t>(strand)];
  if (s.is_host) {
    rt.spawn(run_host(shared_from_this(), strand));
    return;
  }
  if (gpu != nullptr) {
    on_device.push_back(strand);
    if (on_device.size() == 1) start_on_device(strand);
    return;
  }
  rt.start_compute({.cost = s.cost,
                    .width = plan->options.width,
                    .label = "strand",
                    .fn = [self = shared_from_this(),
                           strand](runtime::ComputeContext& context) { self->run_calls(strand, context); },
                    .done = [self = shared_from_this(), strand] { self->ended(strand, {}); }});
}

// A thread of the pool waits for the GPU: the loop stays free.
void RunState::start_on_device(std::int32_t strand) {
  runtime::ComputeFn fn = [self = shared_from_this(), strand](runtime::ComputeContext&) {
    self->gpu->run(strand, self->times.get(), self->rt);
  };
  Callback done = [self = shared_from_this(), strand] {
    std::vector<std::int32_t>& queue = self->on_device;
    queue.erase(queue.begin());
    const Status result = self->gpu->result();
    if (!result.ok() || !self->status.ok()) {  // those behind it never start
      self->in_flight -= static_cast<int>(queue.size());
      queue.clear();
    }
    if (!queue.empty()) self->start_on_device(queue.front());
    self->ended(strand, result);
  };
  rt.start_compute({.cost = plan->part.strands[static_cast<std::size_t>(strand)].cost,
                    .width = 1,
                    .label = "strand",
                    .fn = std::move(fn),
                    .done = std::move(done)});
}

void RunState::run_calls(std::int32_t strand, runtime::ComputeContext& context) {
  StrandState& s = strands[static_cast<std::size_t>(strand)];
  s.parallel.context = &context;
  if (times && !rt.is_virtual()) {
    run_timed(strand);
  } else {
    if (times) times->strand_begins(strand, rt.now());
    for (std::size_t i = s.first_call; i < s.end_call; ++i) calls[i].run(calls[i].args);
  }
  s.parallel.context = nullptr;
}

// On the thread that computes: a real Runtime's now() is only a reading of the clock.
void RunState::run_timed(std::int32_t strand) {
  const StrandState& s = strands[static_cast<std::size_t>(strand)];
  const std::vector<std::int32_t>& nodes = plan->part.strands[static_cast<std::size_t>(strand)].nodes;
  TimeNs begin = rt.now();
  for (std::size_t i = s.first_call; i < s.end_call; ++i) {
    calls[i].run(calls[i].args);
    const TimeNs end = rt.now();
    times->add(nodes[i - s.first_call], begin, end);
    begin = end;
  }
}

void RunState::note_end(std::int32_t strand) {
  const bool timed = !plan->part.strands[static_cast<std::size_t>(strand)].is_host && !rt.is_virtual();
  if (!timed) times->add_strand(strand, times->strand_begin(strand), rt.now());
}

Task<void> RunState::run_host(std::shared_ptr<RunState> self, std::int32_t strand) {
  const std::int32_t node = self->plan->part.strands[static_cast<std::size_t>(strand)].nodes[0];
  HostOp& host = *self->strands[static_cast<std::size_t>(strand)].host;
  const graph::Node& what = self->plan->program.node(node);
  Status status;
  if (self->gpu != nullptr)
    status = co_await run_beside_device(*self, host, node);
  else
    status = co_await host.start(what, self->inputs_of(node), self->outputs_of(node));
  self->ended(strand, std::move(status));
}

// Host ops work on the host: copies of their operands.
Task<Status> RunState::run_beside_device(RunState& self, HostOp& host, std::int32_t node) {
  std::vector<Tensor> in, out;
  for (const Tensor& t : self.inputs_of(node)) {
    TR_CO_ASSIGN_OR_RETURN(Tensor copy, self.gpu->on_host(t));
    in.push_back(std::move(copy));
  }
  for (const Tensor& t : self.outputs_of(node)) {
    TR_CO_ASSIGN_OR_RETURN(Tensor own, Tensor::allocate(cpu_device(), t.type()));
    out.push_back(std::move(own));
  }
  TR_CO_RETURN_IF_ERROR(co_await host.start(self.plan->program.node(node), in, out));
  for (std::size_t i = 0; i < out.size(); ++i)
    TR_CO_RETURN_IF_ERROR(self.gpu->to_device(out[i], self.outputs_of(node)[i]));
  co_return Status();
}

void RunState::ended(std::int32_t strand, Status result) {
  --in_flight;
  if (times) note_end(strand);
  if (!result.ok() && status.ok()) status = std::move(result);
  if (status.ok()) {
    const Strand& s = plan->part.strands[static_cast<std::size_t>(strand)];
    for (const std::int32_t next : s.after)
      if (--strands[static_cast<std::size_t>(next)].waiting == 0) ready.push_back(next);
    for (const std::int32_t n : s.notices) give_notice(n);
  }
  settle();
}

// Starts what is ready, then tells what is final, until neither is left. A host op that ends at once and a
// listener that ends one get here again: the outermost call does the work.
void RunState::settle() {
  if (settling) return;
  start_ready();
  end_if_done();
}

void RunState::start_ready() {
  if (settling) return;
  settling = true;
  while (status.ok() && (next_ready < ready.size() || next_due < due.size())) {
    if (next_ready < ready.size()) {
      start(ready[next_ready++]);
    } else {
      const std::int32_t notice = due[next_due++];
      if (listener) listener(notice, nullptr);
    }
  }
  settling = false;
}

void RunState::end_if_done() {
  if (!running || settling || in_flight > 0) return;
  if (status.ok() && closed_gates > 0) {
    if (held_since < 0) held_since = rt.now();
    return;
  }
  end_hold();
  running = false;
  std::fill(gate_open.begin(), gate_open.end(), 0);
  if (times) times->run_ends(rt.now(), status.ok());
  if (waiter) std::exchange(waiter, nullptr).resume();
}

void RunState::end_hold() {
  if (held_since >= 0) held_ns += rt.now() - held_since;
  held_since = -1;
}

// The run never ends inside this call: its end resumes whoever awaits it.
void RunState::open(std::int32_t gate) {
  const auto g = static_cast<std::size_t>(gate);
  TR_CHECK(g < gate_open.size(), "gate {} of {}", gate, gate_open.size());
  if (gate_open[g] != 0) return;
  gate_open[g] = 1;
  if (!running || !status.ok() || plan->part.gate_strands[g].empty()) return;
  --closed_gates;
  for (const std::int32_t s : plan->part.gate_strands[g])
    if (--strands[static_cast<std::size_t>(s)].waiting == 0) ready.push_back(s);
  start_ready();
  if (in_flight > 0)
    end_hold();
  else
    rt.post([self = shared_from_this()] { self->end_if_done(); });
}

void RunState::cancel(Status why) {
  if (!running || !status.ok()) return;
  status = std::move(why);
  rt.post([self = shared_from_this()] { self->end_if_done(); });
}

// Resumes when the run has ended. Destroyed before that: the run starts nothing more.
struct RunEnd {
  RunState& state;
  bool await_ready() const noexcept { return !state.running; }
  void await_suspend(std::coroutine_handle<> h) { state.waiter = h; }
  void await_resume() const noexcept {}
  ~RunEnd() {
    if (!state.waiter) return;
    state.waiter = nullptr;
    state.status = Status(Code::kCancelled, "[exec] the run was abandoned");
    if (state.in_flight > 0) return;  // what runs ends it
    state.running = false;
    std::fill(state.gate_open.begin(), state.gate_open.end(), 0);
  }
};

Status check_tensor(std::string_view what, std::string_view name, const Tensor& tensor,
                    const TensorType& expected, bool phantom) {
  if (tensor.is_null()) return error(Code::kInvalid, "[exec] {} '{}' has no memory", what, name);
  if (tensor.type() != expected)
    return error(Code::kInvalid, "[exec] {} '{}' has the wrong type: got {}, expected {}", what, name,
                 tensor.type().to_string(), expected.to_string());
  if (!tensor.is_contiguous())
    return error(Code::kInvalid, "[exec] {} '{}' is a strided view, expected row-major memory; copy it first",
                 what, name);
  if (tensor.is_phantom() && !phantom)
    return error(Code::kInvalid, "[exec] {} '{}' is phantom, but this Runtime computes; give it memory", what,
                 name);
  return {};
}

std::vector<std::string> names_of(const std::vector<External>& externals) {
  std::vector<std::string> names;
  for (const External& e : externals) names.push_back(e.name);
  return names;
}

class ExecutionImpl final : public Execution {
 public:
  explicit ExecutionImpl(std::shared_ptr<RunState> state) : state_(std::move(state)) {
    fed_.assign(state_->plan->inputs.size(), false);
  }

  Status feed(std::string_view input, Tensor value) override {
    RunState& s = *state_;
    const std::vector<External>& inputs = s.plan->inputs;
    const auto at =
        std::find_if(inputs.begin(), inputs.end(), [&](const External& e) { return e.name == input; });
    if (at == inputs.end())
      return error(Code::kNotFound, "[exec] the compiled graph has no input '{}'; it has: {}", input,
                   fmt::join(names_of(inputs), ", "));
    TR_RETURN_IF_ERROR(
        check_tensor("input", input, value, s.plan->program.type(at->value), s.rt.is_phantom()));
    if (s.running)
      return error(Code::kInvalid, "[exec] input '{}' fed while the graph runs; wait for run()", input);
    const auto index = static_cast<std::size_t>(at - inputs.begin());
    if (s.gpu != nullptr) {
      TR_ASSIGN_OR_RETURN(value, s.gpu->take_input(index, value));
    }
    for (const auto& [slot, v] : s.plan->input_slots[index])
      s.slots[slot] = s.value_at(v, value.buffer(), value.offset_bytes());
    s.values[at->value] = std::move(value);
    fed_[index] = true;
    return {};
  }

  Task<Status> run() override {
    const std::shared_ptr<RunState> s = state_;
    if (s->running)
      co_return error(Code::kInvalid, "[exec] run() called while this Execution runs; make another one");
    for (std::size_t i = 0; i < fed_.size(); ++i)
      if (!fed_[i])
        co_return error(Code::kInvalid, "[exec] input '{}' was not fed; call feed() before run()",
                        s->plan->inputs[i].name);
    s->begin();
    co_await RunEnd{*s};
    s->has_values = s->status.ok();
    co_return s->status;
  }

  void open(int gate) override { state_->open(gate); }
  void cancel(Status why) override { state_->cancel(std::move(why)); }
  TimeNs held_ns() const override { return state_->held_ns; }

  Result<Tensor> fetch(std::string_view output) const override {
    const RunState& s = *state_;
    const std::optional<Value> found = s.plan->program.find_output(output);
    if (!found) {
      std::vector<std::string> names;
      for (const auto& [name, v] : s.plan->program.outputs()) names.push_back(name);
      return error(Code::kNotFound, "[exec] output '{}' is not fetched; fetched are: {}", output,
                   fmt::join(names, ", "));
    }
    if (!s.has_values)
      return error(Code::kInvalid,
                   "[exec] output '{}' has no value: the graph was not run, or the run failed", output);
    return s.gpu != nullptr ? s.gpu->on_host(value_of(*found)) : value_of(*found);
  }

  void on_notice(Function<void(int, std::shared_ptr<Event>)> listener) override {
    state_->listener = std::move(listener);
  }

  Result<Profile> profile() const override {
    if (!state_->times)
      return error(Code::kInvalid, "[exec] no profile was kept; set ExecutionOptions::profile");
    return state_->times->profile();
  }

 private:
  // Aliases of inputs are found through the input: feeds change.
  Tensor value_of(Value v) const {
    const RunState& s = *state_;
    const Value alias = s.plan->place(v).alias_of;
    if (alias.is_null()) return s.values[v];
    const Tensor base = value_of(alias);
    return s.value_at(v, base.buffer(), base.offset_bytes());
  }

  std::shared_ptr<RunState> state_;
  std::vector<bool> fed_;
};

Status take_variables(RunState& s, const Variables* variables) {
  if (!s.plan->variables.empty() && variables == nullptr)
    return error(Code::kInvalid, "[exec] the graph has variables, but ExecutionOptions::variables is null");
  for (const External& e : s.plan->variables) {
    TR_ASSIGN_OR_RETURN(Tensor tensor, variables->get(e.name));
    TR_RETURN_IF_ERROR(
        check_tensor("variable", e.name, tensor, s.plan->program.type(e.value), s.rt.is_phantom()));
    if (s.gpu != nullptr) {
      TR_ASSIGN_OR_RETURN(tensor, s.gpu->take_variable(e.value, tensor));
    }
    s.values[e.value] = std::move(tensor);
  }
  return {};
}

Status take_bindings(RunState& s, const std::map<std::string, Tensor>& bindings) {
  for (const auto& [name, tensor] : bindings) {
    const auto& bound = s.plan->bound;
    if (std::none_of(bound.begin(), bound.end(), [&, &n = name](const External& e) { return e.name == n; }))
      return error(Code::kNotFound, "[exec] memory for '{}', which was not compiled as bound; bound are: {}",
                   name, fmt::join(names_of(bound), ", "));
  }
  for (const External& e : s.plan->bound) {
    const auto at = bindings.find(e.name);
    if (at == bindings.end())
      return error(Code::kNotFound, "[exec] no memory for the bound output '{}'", e.name);
    Tensor tensor = at->second;
    const TensorType& type = s.plan->program.type(*s.plan->program.find_output(e.name));
    TR_RETURN_IF_ERROR(check_tensor("binding", e.name, tensor, type, s.rt.is_phantom()));
    if (s.gpu != nullptr) {
      TR_ASSIGN_OR_RETURN(tensor, s.gpu->take_bound(e.value, tensor));
    }
    s.values[e.value] = s.value_at(e.value, tensor.buffer(), tensor.offset_bytes());
  }
  return {};
}

// Tensors of all Values but inputs, in node order: aliases find what they share.
void place_values(RunState& s) {
  const graph::Graph& graph = s.plan->program;
  for (std::int32_t i = 0; i < graph.size(); ++i)
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(graph.node(i).outputs.size()); ++k) {
      const Value v{i, k};
      const auto& place = s.plan->place(v);
      if (place.offset >= 0) {
        s.values[v] = s.value_at(v, s.arena, static_cast<std::size_t>(place.offset));
      } else if (!place.alias_of.is_null() && !s.values[place.alias_of].is_null()) {
        const Tensor& base = s.values[place.alias_of];
        s.values[v] = s.value_at(v, base.buffer(), base.offset_bytes());
      }
    }
}

void fill_slots(RunState& s) {
  s.slots.resize(s.plan->num_slots);
  for (const Strand& strand : s.plan->part.strands) {
    if (!strand.is_host && s.rt.is_phantom()) continue;
    for (const std::int32_t node : strand.nodes) {
      std::size_t slot = s.plan->node_plan(node).first_slot;
      const graph::Node& n = s.plan->program.node(node);
      for (const Value v : n.inputs) s.slots[slot++] = s.values[v];
      for (std::size_t k = 0; k < n.outputs.size(); ++k)
        s.slots[slot++] = s.values[Value{node, static_cast<std::int32_t>(k)}];
    }
  }
}

Status make_strands(RunState& s, const HostOps& host_ops) {
  s.strands.reserve(s.plan->part.strands.size());  // calls keep addresses of what is in there
  s.calls.reserve(static_cast<std::size_t>(s.plan->program.size()));
  for (const Strand& strand : s.plan->part.strands) {
    StrandState& state = s.strands.emplace_back(s.plan->options.width);
    if (strand.is_host) {
      const graph::Node& n = s.plan->program.node(strand.nodes[0]);
      const auto at = host_ops.find(std::string(n.def->name));
      if (at == host_ops.end() || at->second == nullptr)
        return error(Code::kNotFound,
                     "[exec] no host op '{}' for node '{}'; give it in ExecutionOptions::host_ops",
                     n.def->name, n.name);
      state.host = at->second;
      continue;
    }
    state.first_call = s.calls.size();
    for (const std::int32_t node : strand.nodes) {
      if (s.rt.is_phantom() || s.gpu != nullptr) break;
      const NodePlan& p = s.plan->node_plan(node);
      std::span<std::byte> workspace;
      if (p.workspace_bytes > 0)
        workspace = {s.arena.data() + p.workspace_offset, static_cast<std::size_t>(p.workspace_bytes)};
      s.calls.push_back({p.run,
                         {.inputs = s.inputs_of(node),
                          .outputs = s.outputs_of(node),
                          .attrs = s.plan->program.node(node).attrs,
                          .workspace = workspace,
                          .parallel = state.parallel,
                          .state = p.state.get()}});
    }
    state.end_call = s.calls.size();
  }
  return {};
}

// Says what the memory is for: all of an Execution, and the largest values of its arena.
Status does_not_fit(const Status& why, const CompiledPlan& plan) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::pair<std::size_t, Value>> values;
  for (std::int32_t i = 0; i < plan.program.size(); ++i)
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(plan.program.node(i).outputs.size()); ++k)
      if (const Value v{i, k}; plan.place(v).offset >= 0)
        values.emplace_back(plan.program.type(v).num_bytes(), v);
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  values.resize(std::min(values.size(), kNamed));
  std::string largest;
  for (const auto& [bytes, v] : values)
    largest += fmt::format("{}'{}' {} with {}", largest.empty() ? "" : ", ", plan.program.node(v.node).name,
                           plan.program.type(v).to_string(), format_bytes(bytes));
  const MemoryReport m = plan.memory();
  const auto text = [](std::int64_t bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  return why.with_prefix(fmt::format(
      "[exec] the graph needs {} in all (values {}, workspaces {}, variables {}, feeds {}, bound {}; "
      "largest values: {}): ",
      text(m.total_bytes()), text(m.values_bytes), text(m.workspace_bytes), text(m.variables_bytes),
      text(m.feeds_bytes), text(m.bound_bytes), largest));
}

// Memory for everything, and tensors in it.
Status take_memory(RunState& s, const ExecutionOptions& options) {
  const auto bytes = static_cast<std::size_t>(s.plan->arena_bytes());
  if (s.gpu != nullptr) {
    TR_ASSIGN_OR_RETURN(s.arena, s.plan->options.device->allocate(bytes));
  } else if (s.rt.is_phantom()) {
    s.arena = Buffer::phantom(phantom_device(), bytes);
  } else {
    Device& device = options.device ? *options.device : cpu_device();
    TR_ASSIGN_OR_RETURN(s.arena, device.allocate(bytes));
  }
  TR_RETURN_IF_ERROR(take_variables(s, options.variables));
  return take_bindings(s, options.bindings);
}

}  // namespace

Result<std::unique_ptr<Execution>> make_execution(runtime::Runtime& rt,
                                                  std::shared_ptr<const CompiledGraph> compiled,
                                                  ExecutionOptions options) {
  auto plan = std::dynamic_pointer_cast<const CompiledPlan>(std::move(compiled));
  TR_CHECK(plan != nullptr, "a CompiledGraph that compile() did not make");
  auto state = std::make_shared<RunState>(rt, std::move(plan));
  RunState& s = *state;
  if (s.plan->gpu() != nullptr) {
    if (rt.is_virtual())
      return error(Code::kInvalid,
                   "[exec] a graph compiled for a GPU cannot run in virtual time; compile it for the host");
    s.gpu = std::make_unique<DeviceRun>(*s.plan, options.mirror);
  }
  if (const Status taken = take_memory(s, options); !taken.ok())
    return taken.code() == Code::kExhausted ? does_not_fit(taken, *s.plan) : taken;
  if (options.profile) s.times = std::make_unique<NodeTimes>(*s.plan);
  place_values(s);
  fill_slots(s);
  TR_RETURN_IF_ERROR(make_strands(s, options.host_ops));
  if (s.gpu != nullptr)
    for (const Strand& strand : s.plan->part.strands)
      for (const std::int32_t node : strand.nodes)
        if (!strand.is_host) s.gpu->add_call(node, s.inputs_of(node), s.outputs_of(node), s.arena);
  s.notice_waiting.resize(s.plan->part.notice_before.size());
  s.ready.reserve(s.strands.size());
  s.due.reserve(s.notice_waiting.size());
  s.gate_open.assign(s.plan->part.gate_strands.size(), 0);
  return std::unique_ptr<Execution>(std::make_unique<ExecutionImpl>(std::move(state)));
}

}  // namespace trireme::exec
