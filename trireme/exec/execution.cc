// Executions: making one (memory, tensors, kernel calls), feeding, running, fetching. How a run goes:
// run_state.h.
#include <fmt/format.h>
#include <algorithm>
#include <coroutine>
#include <cstring>

#include "trireme/base/units.h"
#include "trireme/exec/run_state.h"

namespace trireme::exec {
namespace {

using runtime::Task;

// Resumes when the run has ended. Destroyed before that: the run starts nothing more.
struct RunEnd {
  RunState& state;
  bool await_ready() const noexcept { return !state.running; }
  void await_suspend(std::coroutine_handle<> h) { state.waiter = h; }
  void await_resume() const noexcept {}
  ~RunEnd() {
    if (state.waiter) state.abandon();
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

Status take_variables(RunState& s, const Variables* variables);
void place_values(RunState& s);
void fill_slots(RunState& s);

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
      if (slot < s.slots.size()) s.slots[slot] = s.value_at(v, value.buffer(), value.offset_bytes());
    s.values[at->value] = std::move(value);
    fed_[index] = true;
    return {};
  }

  Status rebind(const Variables& variables) override {
    RunState& s = *state_;
    if (s.running) return error(Code::kInvalid, "[exec] rebind() while the graph runs; wait for run()");
    if (s.gpu != nullptr)
      return error(Code::kInvalid, "[exec] rebind() of a graph on a GPU, whose calls know their memory");
    TR_RETURN_IF_ERROR(take_variables(s, &variables));
    place_values(s);
    fill_slots(s);
    return {};
  }

  Task<Status> run(RunOptions options) override {
    const std::shared_ptr<RunState> s = state_;
    if (s->running)
      co_return error(Code::kInvalid, "[exec] run() called while this Execution runs; make another one");
    if (Status can = check_phase(options.phase); !can.ok()) co_return can;
    if (Status fed = check_fed(options.phase); !fed.ok()) co_return fed;
    s->begin(options);
    co_await RunEnd{*s};
    co_return s->status;
  }

  void open(int gate) override { state_->open(gate); }
  void cancel(Status why) override { state_->cancel(std::move(why)); }
  TimeNs held_ns() const override { return state_->held.ns; }
  TimeNs met_ns() const override { return state_->met.ns; }

  Result<Tensor> fetch(std::string_view output) const override {
    const RunState& s = *state_;
    const std::optional<Value> found = s.plan->program.find_output(output);
    if (!found) {
      std::vector<std::string> names;
      for (const auto& [name, v] : s.plan->program.outputs()) names.push_back(name);
      return error(Code::kNotFound, "[exec] output '{}' is not fetched; fetched are: {}", output,
                   fmt::join(names, ", "));
    }
    if (s.phase.begun == 0)
      return error(Code::kInvalid,
                   "[exec] output '{}' has no value: the graph was not run, or the run failed", output);
    if (const std::int32_t phase = s.plan->phases.of(output); phase >= s.phase.begun)
      return error(Code::kInvalid, "[exec] output '{}' has no value yet: phase {} has not run", output,
                   phase);
    return s.gpu != nullptr ? s.gpu->on_host(value_of(*found)) : value_of(*found);
  }

  void on_notice(Function<void(int, std::shared_ptr<Event>)> listener) override {
    state_->listeners.notice = std::move(listener);
  }

  void on_held(Function<void()> listener) override { state_->listeners.held = std::move(listener); }

  Result<Profile> profile() const override {
    if (!state_->times)
      return error(Code::kInvalid, "[exec] no profile was kept; set ExecutionOptions::profile");
    return state_->times->profile();
  }

 private:
  Status check_phase(int phase) const {
    const std::int32_t num = state_->plan->phases.num, next = state_->phase.begun;
    if (phase < -1 || phase >= num)
      return error(Code::kInvalid, "[exec] run() of phase {}, expected 0 to {}, or -1 for all", phase,
                   num - 1);
    if (phase <= 0 || phase == next) return {};
    if (phase < next)
      return error(Code::kInvalid, "[exec] phase {} has run already; begin again with phase 0", phase);
    return error(Code::kInvalid,
                 "[exec] phase {} needs phase {} before it; begin with phase 0, also after a failure", phase,
                 next);
  }

  Status check_fed(int phase) const {
    const CompiledPlan& plan = *state_->plan;
    const auto check = [&](std::size_t i) {
      if (fed_[i]) return Status();
      return error(Code::kInvalid, "[exec] input '{}' was not fed; call feed() before run()",
                   plan.inputs[i].name);
    };
    if (phase >= 0)
      for (const std::int32_t i : plan.phase_inputs[static_cast<std::size_t>(phase)])
        TR_RETURN_IF_ERROR(check(static_cast<std::size_t>(i)));
    for (std::size_t i = 0; phase < 0 && i < fed_.size(); ++i) TR_RETURN_IF_ERROR(check(i));
    return {};
  }

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
        s.values[v] = s.value_at(v, place.scratch ? s.memory.scratch : s.memory.arena,
                                 static_cast<std::size_t>(place.offset));
      } else if (!place.alias_of.is_null() && !s.values[place.alias_of].is_null()) {
        const Tensor& base = s.values[place.alias_of];
        s.values[v] = s.value_at(v, base.buffer(), base.offset_bytes());
      }
    }
}

// On a phantom Runtime kernels are given nothing: a thousand Executions of a large model fit.
void fill_slots(RunState& s) {
  s.slots.resize(s.rt.is_phantom() ? s.plan->num_host_slots : s.plan->num_slots);
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
        workspace = {s.memory.workspaces().data() + p.workspace_offset,
                     static_cast<std::size_t>(p.workspace_bytes)};
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
      "[exec] the graph needs {} in all (values {}, workspaces {}, {}variables {}, feeds {}, bound {}; "
      "largest values: {}): ",
      text(m.total_bytes()), text(m.values_bytes), text(m.workspace_bytes),
      m.scratch_bytes > 0 ? fmt::format("scratch memory {}, ", text(m.scratch_bytes)) : "",
      text(m.variables_bytes), text(m.feeds_bytes), text(m.bound_bytes), largest));
}

Result<Buffer> allocate(const RunState& s, const ExecutionOptions& options, std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  if (s.gpu == nullptr && s.rt.is_phantom()) return Buffer::phantom(phantom_device(), size);
  if (options.device != nullptr) return options.device->allocate(size);
  return s.gpu != nullptr ? s.plan->options.device->allocate(size) : cpu_device().allocate(size);
}

Status check_scratch(const RunState& s, const Buffer& scratch) {
  constexpr std::uintptr_t kAlign = 64;
  const auto needed = static_cast<std::size_t>(s.plan->scratch_bytes());
  if (scratch.size_bytes() < needed)
    return error(Code::kInvalid, "[exec] the scratch memory has {} bytes, the graph needs {}",
                 scratch.size_bytes(), needed);
  if (s.rt.is_phantom()) return {};
  const DeviceKind kind = s.gpu != nullptr ? DeviceKind::kCuda : DeviceKind::kCpu;
  if (scratch.is_phantom() || scratch.device().kind() != kind)
    return error(Code::kInvalid, "[exec] the scratch memory is not on the device that runs the graph");
  if (reinterpret_cast<std::uintptr_t>(scratch.data()) % kAlign != 0)
    return error(Code::kInvalid, "[exec] the scratch memory does not begin at a multiple of {} bytes",
                 kAlign);
  return {};
}

// Memory for everything, and tensors in it.
Status take_memory(RunState& s, const ExecutionOptions& options) {
  TR_ASSIGN_OR_RETURN(s.memory.arena, allocate(s, options, s.plan->arena_bytes()));
  if (s.plan->scratch_bytes() > 0) {
    if (s.memory.scratch.is_null()) {
      TR_ASSIGN_OR_RETURN(s.memory.scratch, allocate(s, options, s.plan->scratch_bytes()));
    }
    TR_RETURN_IF_ERROR(check_scratch(s, s.memory.scratch));
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
    s.gpu = std::make_unique<DeviceRun>(*s.plan, options);
  }
  if (s.plan->scratch_bytes() > 0) s.memory.scratch = std::move(options.scratch);
  if (const Status taken = take_memory(s, options); !taken.ok())
    return taken.code() == Code::kExhausted ? does_not_fit(taken, *s.plan) : taken;
  if (options.profile) s.times = std::make_unique<NodeTimes>(*s.plan);
  place_values(s);
  fill_slots(s);
  TR_RETURN_IF_ERROR(make_strands(s, options.host_ops));
  if (s.gpu != nullptr)
    for (const Strand& strand : s.plan->part.strands)
      for (const std::int32_t node : strand.nodes)
        if (!strand.is_host)
          s.gpu->add_call(node, s.inputs_of(node), s.outputs_of(node), s.memory.workspaces());
  s.notice_waiting.resize(s.plan->part.notice_before.size());
  s.notice_point.resize(s.notice_waiting.size());
  s.ready.items.reserve(s.strands.size());
  s.due.items.reserve(s.notice_waiting.size());
  s.gate_open.assign(s.plan->part.gate_strands.size(), 0);
  return std::unique_ptr<Execution>(std::make_unique<ExecutionImpl>(std::move(state)));
}

}  // namespace trireme::exec
