#include "trireme/exec/device_run.h"

#include <algorithm>
#include <optional>

#include "trireme/exec/device_ahead.h"
#include "trireme/exec/device_queue.h"
#include "trireme/exec/node_times.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::exec {

namespace gpu = kernel::cuda;

namespace {

// A tensor of the host and its copy on the device.
struct Pair {
  Tensor host, device;
  bool fresh = false;  // copied in during this run
  bool in_use = true;  // false: an input that was fed from the device since
};

struct Call : gpu::KernelStream::Call {
  std::int32_t node;
  bool with_last = false;  // in one launch with the call before
};

struct StrandWork {
  std::vector<Call> calls;
  std::vector<Pair*> reads, writes;
  int runs = 0;
  std::unique_ptr<gpu::Replay> replay;
};

constexpr std::size_t kAlign = 256;

}  // namespace

struct DeviceRun::State {
  State(const CompiledPlan& p, const ExecutionOptions& o)
      : plan(p),
        mirror(o.mirror),
        ahead(o.ahead),
        queue(o.queue),
        own(queue == nullptr ? gpu::make_kernel_stream(*p.gpu()) : nullptr),
        stream(queue == nullptr ? *own : queue->stream()),
        side(gpu::make_kernel_stream(*p.gpu())),
        operands(p.options.device),
        roots(graph::storage_roots(p.program, p.pinned)),
        inputs(p.inputs.size()),
        input_at(p.inputs.size()) {
    strands.resize(p.part.strands.size());
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { (void)wait_for_queue(); }  // it works in memory that goes now

  Status wait_for_queue() const { return queue == nullptr ? Status() : queue->wait(); }
  static Status copy(gpu::KernelStream& stream, const Tensor& from, const Tensor& to) {
    const std::size_t bytes = from.type().num_bytes();
    return stream.copy(from.buffer().slice(from.offset_bytes(), bytes),
                       to.buffer().slice(to.offset_bytes(), bytes));
  }
  StrandWork& work_of(std::int32_t node) {
    return strands[static_cast<std::size_t>(plan.part.strand_of[static_cast<std::size_t>(node)])];
  }
  Result<Pair*> pair_for(const Tensor& host) {
    auto pair = std::make_unique<Pair>();
    pair->host = host;
    TR_ASSIGN_OR_RETURN(pair->device, Tensor::allocate(*plan.options.device, host.type()));
    return pairs.emplace_back(std::move(pair)).get();
  }
  void read_by_strands(Value value, Pair* pair);
  void written_by_strands(Value value, Pair* pair);
  Status copy_in(const Pair& pair);
  Status forget_replays(Value value);
  Status run_calls(StrandWork& work);
  Status run_timed(StrandWork& work, NodeTimes& times, const runtime::Runtime& rt);
  Status run_strand(StrandWork& work, NodeTimes* times, const runtime::Runtime& rt);

  std::optional<Tensor> own_on_host(const Tensor& value) const;
  // The tensor on the device that stands for it already, if any.
  std::optional<Tensor> resident(const Tensor& t) const {
    if (t.buffer().device().kind() == DeviceKind::kCuda) return t;
    return mirror != nullptr ? mirror->find(t) : std::nullopt;
  }

  const CompiledPlan& plan;
  const DeviceMirror* mirror;
  DeviceAhead* ahead;
  std::shared_ptr<DeviceQueue> queue;
  std::unique_ptr<gpu::KernelStream> own;  // null: the queue's is used
  gpu::KernelStream& stream;
  const std::unique_ptr<gpu::KernelStream> side;  // for copies that the loop waits for
  OperandMemory operands;
  graph::ValueMap<Value> roots;
  std::vector<std::unique_ptr<Pair>> pairs;
  std::vector<Pair*> inputs;               // null: never given on the host
  std::vector<const std::byte*> input_at;  // where each is on the device
  std::vector<StrandWork> strands;
  Status last;
  std::shared_ptr<Event> point;
};

// Every strand with a node that reads the value or a view of it.
void DeviceRun::State::read_by_strands(Value value, Pair* pair) {
  for (std::size_t s = 0; s < strands.size(); ++s)
    for (const std::int32_t node : plan.part.strands[s].nodes)
      for (const Value v : plan.program.node(node).inputs)
        if (roots[v] == value && (strands[s].reads.empty() || strands[s].reads.back() != pair))
          strands[s].reads.push_back(pair);
}

void DeviceRun::State::written_by_strands(Value value, Pair* pair) {
  for (std::size_t s = 0; s < strands.size(); ++s)
    for (const std::int32_t id : plan.part.strands[s].nodes) {
      const graph::Node& node = plan.program.node(id);
      for (const int i : node.def->mutated_inputs)
        if (roots[node.inputs[static_cast<std::size_t>(i)]] == value &&
            (strands[s].writes.empty() || strands[s].writes.back() != pair))
          strands[s].writes.push_back(pair);
    }
}

Status DeviceRun::State::copy_in(const Pair& pair) {
  if (ahead != nullptr) {
    TR_ASSIGN_OR_RETURN(const bool received, ahead->receive(pair.host, pair.device, stream));
    if (received) return {};
  }
  TR_RETURN_IF_ERROR(copy(stream, pair.host, pair.device));
  const bool locked = queue != nullptr && ahead != nullptr && ahead->has(pair.host);
  return locked ? stream.synchronize() : Status();  // it is read only now
}

Status DeviceRun::State::run_calls(StrandWork& work) {
  std::vector<gpu::KernelStream::Call> together;
  for (std::size_t i = 0; i < work.calls.size(); ++i) {
    together.push_back(work.calls[i]);
    if (i + 1 < work.calls.size() && work.calls[i + 1].with_last) continue;
    TR_RETURN_IF_ERROR(stream.enqueue_all(together));
    together.clear();
  }
  return {};
}

// Waits for every kernel, so that its time is its own.
Status DeviceRun::State::run_timed(StrandWork& work, NodeTimes& times, const runtime::Runtime& rt) {
  if (work.runs == 1 && work.calls.size() > 1) {  // only to count
    TR_ASSIGN_OR_RETURN(const auto captured, stream.capture([&] { return run_calls(work); }));
    times.add_launches(captured->num_launches());
  }
  TR_RETURN_IF_ERROR(stream.synchronize());
  TimeNs begin = rt.now();
  for (const Call& c : work.calls) {
    TR_RETURN_IF_ERROR(stream.enqueue(*c.kernel, c.in, c.out, c.workspace));
    TR_RETURN_IF_ERROR(stream.synchronize());
    const TimeNs end = rt.now();
    times.add(c.node, begin, end);
    begin = end;
  }
  return {};
}

Status DeviceRun::State::run_strand(StrandWork& work, NodeTimes* times, const runtime::Runtime& rt) {
  std::unique_lock<std::mutex> turn;
  if (queue != nullptr) turn = queue->turn(), queue->work_begins();
  std::size_t launches = work.writes.size();
  for (Pair* p : work.reads)
    if (p->in_use && !std::exchange(p->fresh, true)) {
      TR_RETURN_IF_ERROR(copy_in(*p));
      ++launches;
    }
  if (times != nullptr) {
    TR_RETURN_IF_ERROR(run_timed(work, *times, rt));
  } else if (work.replay == nullptr && (work.runs == 0 || work.calls.size() < 2)) {
    TR_RETURN_IF_ERROR(
        run_calls(work));  // libraries load their code when first called, which cannot be captured
    launches += work.calls.size();
  } else {
    if (work.replay == nullptr) {
      TR_ASSIGN_OR_RETURN(work.replay, stream.capture([&] { return run_calls(work); }));
    }
    TR_RETURN_IF_ERROR(stream.launch(*work.replay));
    launches += work.replay->num_launches();
  }
  ++work.runs;
  for (Pair* p : work.writes) {
    p->fresh = true;
    TR_RETURN_IF_ERROR(copy(stream, p->device, p->host));
  }
  if (queue == nullptr) return stream.synchronize();
  queue->work_ends(launches);
  return {};
}

// What was captured holds the address of the tensor before.
Status DeviceRun::State::forget_replays(Value value) {
  for (StrandWork& work : strands) {
    if (work.replay == nullptr) continue;
    const bool reads = std::any_of(work.calls.begin(), work.calls.end(), [&](const Call& c) {
      const std::vector<Value>& in = plan.program.node(c.node).inputs;
      return std::any_of(in.begin(), in.end(), [&](Value v) { return roots[v] == value; });
    });
    if (!reads) continue;
    TR_RETURN_IF_ERROR(wait_for_queue());
    work.replay.reset();
  }
  return {};
}

DeviceRun::DeviceRun(const CompiledPlan& plan, const ExecutionOptions& options)
    : state_(std::make_unique<State>(plan, options)) {}
DeviceRun::~DeviceRun() = default;

Result<Tensor> DeviceRun::take_input(std::size_t index, const Tensor& tensor) {
  State& p = *state_;
  const Value value = p.plan.inputs[index].value;
  Pair*& pair = p.inputs[index];
  std::optional<Tensor> there = p.resident(tensor);
  const bool on_device = there.has_value();
  if (!on_device) {
    if (pair == nullptr) {
      TR_ASSIGN_OR_RETURN(pair, p.pair_for(tensor));
      p.read_by_strands(value, pair);
    }
    there = pair->device;
  }
  if (pair != nullptr) {
    pair->in_use = !on_device;
    pair->host = on_device ? Tensor() : tensor;
  }
  if (std::exchange(p.input_at[index], there->raw()) == there->raw()) return *there;
  TR_RETURN_IF_ERROR(p.forget_replays(value));
  return *there;
}

Result<Tensor> DeviceRun::take_variable(Value value, const Tensor& tensor) {
  if (const std::optional<Tensor> there = state_->resident(tensor)) return *there;
  TR_ASSIGN_OR_RETURN(Pair* const pair, state_->pair_for(tensor));
  state_->read_by_strands(value, pair);
  state_->written_by_strands(value, pair);
  return pair->device;
}

Result<Tensor> DeviceRun::take_bound(Value value, const Tensor& tensor) {
  if (const std::optional<Tensor> there = state_->resident(tensor)) return *there;
  TR_ASSIGN_OR_RETURN(Pair* const pair, state_->pair_for(tensor));
  state_->work_of(value.node).writes.push_back(pair);
  return pair->device;
}

void DeviceRun::add_call(std::int32_t node, std::span<const Tensor> in, std::span<const Tensor> out,
                         const Buffer& arena) {
  const NodePlan& plan = state_->plan.node_plan(node);
  std::byte* workspace = nullptr;
  if (plan.workspace_bytes > 0) {
    const auto at = reinterpret_cast<std::uintptr_t>(arena.data() + plan.workspace_offset);
    workspace = reinterpret_cast<std::byte*>((at + kAlign - 1) / kAlign * kAlign);
  }
  std::vector<Call>& calls = state_->work_of(node).calls;
  // Ops that only write variables of their own do not need each other.
  const bool writes = !state_->plan.program.node(node).def->mutated_inputs.empty();
  const bool with_last = writes && !calls.empty() && calls.back().kernel->goes_with(*plan.cuda);
  calls.push_back({{plan.cuda.get(), in, out, workspace}, node, with_last});
}

void DeviceRun::begin() {
  for (const auto& pair : state_->pairs) pair->fresh = false;
}

void DeviceRun::run(std::int32_t strand, NodeTimes* times, const runtime::Runtime& rt) {
  State& p = *state_;
  p.point = nullptr;
  p.last = p.run_strand(p.strands[static_cast<std::size_t>(strand)], times, rt);
  const bool awaited = !p.plan.part.strands[static_cast<std::size_t>(strand)].notices.empty();
  if (p.queue != nullptr && awaited && p.last.ok()) p.point = p.queue->record();
}

Status DeviceRun::result() const { return state_->last; }
std::shared_ptr<Event> DeviceRun::point() const { return state_->point; }

// The host's own is up to date: strands copy out what they write. A feed that no strand reads is only there.
std::optional<Tensor> DeviceRun::State::own_on_host(const Tensor& value) const {
  if (value.buffer().device().kind() != DeviceKind::kCuda) return value;
  for (const auto& pair : pairs)
    if (pair->in_use && pair->device.raw() == value.raw() &&
        pair->device.type().num_bytes() == value.type().num_bytes())
      return Tensor(pair->host.buffer(), value.type(), pair->host.offset_bytes());
  return std::nullopt;
}

Result<Tensor> DeviceRun::on_host(const Tensor& value) {
  if (value.buffer().device().kind() == DeviceKind::kCuda) TR_RETURN_IF_ERROR(state_->wait_for_queue());
  if (std::optional<Tensor> own = state_->own_on_host(value)) return *own;
  TR_ASSIGN_OR_RETURN(Tensor host, Tensor::allocate(cpu_device(), value.type()));
  TR_RETURN_IF_ERROR(State::copy(*state_->side, value, host));
  TR_RETURN_IF_ERROR(state_->side->synchronize());
  return host;
}

Status DeviceRun::take_operands(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                                HostOperands& taken) {
  TR_RETURN_IF_ERROR(state_->wait_for_queue());
  for (const Tensor& value : inputs) {
    if (std::optional<Tensor> own = state_->own_on_host(value)) {
      taken.in.push_back(*own);
      continue;
    }
    TR_ASSIGN_OR_RETURN(Tensor host, state_->operands.take(value.type()));
    taken.in.push_back(host);
    TR_RETURN_IF_ERROR(State::copy(*state_->side, value, host));
  }
  for (const Tensor& value : outputs) {
    TR_ASSIGN_OR_RETURN(Tensor host, state_->operands.take(value.type()));
    taken.out.push_back(std::move(host));
  }
  return state_->side->synchronize();
}

Status DeviceRun::write_outputs(const HostOperands& taken, std::span<const Tensor> outputs) {
  TR_RETURN_IF_ERROR(state_->wait_for_queue());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    TR_RETURN_IF_ERROR(State::copy(*state_->side, taken.out[i], outputs[i]));
  return state_->side->synchronize();
}

// A copy that failed may be under way still.
void DeviceRun::give_back(const HostOperands& taken) {
  if (state_->side->synchronize().ok()) state_->operands.give_back(taken);
}

Status DeviceRun::ready_on_device(std::span<const Tensor> values) {
  TR_RETURN_IF_ERROR(state_->wait_for_queue());
  bool copied = false;
  for (const Tensor& value : values)
    for (const auto& pair : state_->pairs)
      if (pair->in_use && pair->device.raw() == value.raw()) {
        TR_RETURN_IF_ERROR(State::copy(*state_->side, pair->host, pair->device));
        copied = true;
      }
  return copied ? state_->side->synchronize() : Status();
}

}  // namespace trireme::exec
