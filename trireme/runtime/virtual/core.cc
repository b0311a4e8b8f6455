#include "trireme/runtime/virtual/core.h"

#include "trireme/runtime/virtual/local_network.h"

namespace trireme::runtime {
namespace virt {

Core::Core(WorldSpec spec)
    : spec_(std::move(spec)),
      random_(mix_key(spec_.seed, hash_text("virtual world"))),
      disk_random_(mix_key(spec_.seed, hash_text("disk faults"))),
      routes_(spec_.topology),
      jitters_(spec_.latency_jitter > 0),
      chance_(spec_.network, spec_.seed) {
  TR_CHECK(!spec_.topology.machines.empty(), "a virtual world needs a machine");
  if (!spec_.topology.links.empty()) {
    const Status checked = cost::check_topology(spec_.topology);
    TR_CHECK(checked.ok(), "{}", checked.message());
  }
  for (const cost::TopologyLink& l : routes_.links()) {
    wires_.push_back({.model = l.model});
    jitters_ = jitters_ || l.jitter > 0;
  }
  for (const cost::MachineModel& model : spec_.topology.machines)
    machines_.push_back(std::make_unique<Machine>(*this, model, spec_.topology.local));
  for (const FaultSpec& fault : spec_.faults)
    if (fault.site.empty()) schedule_fault(fault);
}

// Frames and callbacks hold endpoints, timers and OneShots that call back into the world: all of them go
// while every VirtualNode and queue still stands, and with every VirtualNode dead nothing they call has an
// effect.
Core::~Core() {
  tearing_down_ = true;
  for (auto& node : nodes_) node->dead = true;
  for (auto& node : nodes_) node->destroy_tasks();
  queue_.destroy_callbacks();
  for (auto& machine : machines_) machine->cores.destroy_requests();
  for (auto& node : nodes_) {
    const auto deferred = std::move(node->deferred);
    node->on_interrupt({});
  }
  for (auto& box : boxes_) {
    const auto handlers = std::move(box->handlers);
    const auto early = std::move(box->early);
  }
  const auto parked = std::move(parked_);
  for (PacketInFlight& message : messages_) const auto payload = std::move(message.packet.payload);
}

VirtualNode& Core::add_node(int machine, std::string name) {
  TR_CHECK(machine >= 0 && machine < static_cast<int>(machines_.size()), "no machine {} in this world of {}",
           machine, machines_.size());
  nodes_.push_back(
      std::make_unique<VirtualNode>(*this, static_cast<int>(nodes_.size()), machine, std::move(name)));
  VirtualNode& node = *nodes_.back();
  for (const FaultSpec& fault : spec_.faults)
    if (fault.runtime == node.index && !fault.site.empty()) node.faults.push_back(fault);
  return node;
}

void Core::start(Runtime& runtime, Task<void> task) {
  VirtualNode& node = static_cast<VirtualNode&>(runtime);
  if (node.dead) return;
  ++roots_left_;
  node.start_root(std::move(task));
}

void Core::start_program(Runtime& runtime, RootProgram program) {
  VirtualNode& node = static_cast<VirtualNode&>(runtime);
  if (node.dead) return;
  node.programs.push_back(std::make_shared<const RootProgram>(std::move(program)));
  start(runtime, (*node.programs.back())(runtime));
}

void Core::set_program(VirtualProgram program) {
  program_ = std::make_shared<const VirtualProgram>(std::move(program));
}

void Core::root_ended(VirtualNode& node) {
  --node.num_roots;
  --roots_left_;
}

WorldReport Core::run(TimeNs limit) {
  const bool stop_with_roots = roots_left_ > 0;
  bool limited = true;
  EventRef ref;
  while (!(stop_with_roots && roots_left_ == 0)) {
    if (!queue_.pop(limit, ref)) {
      limited = !queue_.idle();
      break;
    }
    dispatch(ref);
  }
  WorldReport report;
  report.finished = roots_left_ == 0;
  if (!report.finished && limited) queue_.advance_to(limit);
  report.end_time = now();
  report.num_events = num_events_;
  report.num_messages = num_messages_;
  report.num_bytes = num_bytes_;
  report.trace_hash = trace_.value();
  if (!report.finished) report.stuck = describe_stuck();
  return report;
}

std::string Core::describe_stuck() const {
  std::string text;
  for (const auto& node : nodes_) {
    if (node->num_roots == 0) continue;
    if (!text.empty()) text += "; ";
    text += node->name();
    if (node->paused) text += " (paused)";
    if (node->activity_.busy()) text += " (busy)";
    if (!node->log_lines.empty()) text += fmt::format(": {}", node->log_lines.back());
  }
  if (restarts_left_ > 0)
    text += fmt::format("{}{} to be restarted", text.empty() ? "" : "; ", restarts_left_);
  return text;
}

void Core::note(int node, std::uint64_t kind) {
  ++num_events_;
  trace_.add(static_cast<std::uint64_t>(now()));
  trace_.add((static_cast<std::uint64_t>(node + 1) << 8) | kind);
}

void Core::dispatch(EventRef ref) {
  switch (ref.kind) {
    case EventKind::kCallback: {
      CallbackEvent& event = queue_.callback(ref.index);
      VirtualNode* node = event.node;
      if (!event.cancelled && node != nullptr && !node->dead && (node->paused || node->draining))
        node->held.push_back(ref);
      else
        run_callback(ref.index);
      break;
    }
    case EventKind::kArrive:
      arrive(ref.index);
      break;
    case EventKind::kDeliver: {
      VirtualNode* node = messages_[ref.index].to->node;
      if (!node->dead && (node->paused || node->draining))
        node->held.push_back(ref);
      else
        deliver(ref.index);
      break;
    }
  }
}

void Core::run_callback(std::uint32_t index) {
  const CallbackEvent& event = queue_.callback(index);
  VirtualNode* node = event.node;
  const bool runs = !event.cancelled && !(node != nullptr && node->dead);
  if (runs) note(node, static_cast<std::uint64_t>(event.label));
  Callback fn = queue_.release(index);
  if (runs) fn();
}

void Core::drain(VirtualNode& node) {
  if (node.dead || node.paused) return;
  for (Callback& action : std::exchange(node.deferred, {})) action();
  while (!node.held.empty() && !node.paused && !node.dead) {
    const EventRef ref = node.held.front();
    node.held.pop_front();
    if (ref.kind == EventKind::kCallback)
      run_callback(ref.index);
    else
      deliver(ref.index);
  }
  if (!node.paused) node.draining = false;
}

TimeNs Core::jittered(TimeNs latency) {
  if (spec_.latency_jitter <= 0) return latency;
  return latency +
         static_cast<TimeNs>(static_cast<double>(latency) * spec_.latency_jitter * random_.next_double());
}

void Core::schedule_fault(const FaultSpec& fault) {
  at(nullptr, fault.at, Label::kFault, [this, fault = &fault] {
    if (fault->runtime < 0 || fault->runtime >= static_cast<int>(nodes_.size())) return;
    VirtualNode& node = *nodes_[static_cast<std::size_t>(fault->runtime)];
    if (node.dead) return;
    switch (fault->kind) {
      case FaultSpec::Kind::kKill:
        kill(node);
        break;
      case FaultSpec::Kind::kPause:
        pause(node, fault->duration);
        break;
      case FaultSpec::Kind::kMute:
        mute(node, fault->duration);
        break;
      case FaultSpec::Kind::kSlow:
        slow(node, fault->factor, fault->duration);
        break;
      case FaultSpec::Kind::kRestart:
        restart(node, fault->duration);
        break;
      case FaultSpec::Kind::kMiscall:
        node.pending_action = FaultAction::kMiscall;
        break;
      case FaultSpec::Kind::kError:
        node.pending_action = FaultAction::kError;
        break;
    }
  });
}

void Core::kill(VirtualNode& node) { end(node, {.code = 0, .signal = 9}, /*lose_files=*/true); }

void Core::end(VirtualNode& node, ExitStatus status, bool lose_files) {
  if (node.dead) return;
  note(&node, 0x80 | static_cast<std::uint64_t>(status.signal & 0x3F));
  // Nobody else runs before this call returns, so the order of these steps is not seen.
  node.dead = true;
  roots_left_ -= node.num_roots;
  node.num_roots = 0;
  for (EndpointState* box : std::vector<EndpointState*>(node.endpoints)) close_endpoint(*box);
  node.local_network->node_ended();
  node.machine().cores.node_ended(node);
  if (lose_files) node.machine().disk.lose_unsynced(node.index);
  node.machine().disk.drop_locks(node.index);
  if (node.process) process_ended(node.process, status);
}

void Core::restart(VirtualNode& node, TimeNs after) {
  if (node.dead) return;
  kill(node);
  if (node.programs.empty() || after > kForever - now()) return;
  roots_left_ += static_cast<int>(node.programs.size());  // run() waits for them too
  ++restarts_left_;
  at(nullptr, now() + after, Label::kFault, [this, &node] {
    --restarts_left_;
    VirtualNode& again = add_node(node.machine_index, node.name());
    again.programs = node.programs;
    for (const auto& program : again.programs) again.start_root((*program)(again));
  });
}

bool Core::disk_fails(int machine) {
  bool fails = false;
  for (const DiskFault& f : spec_.disk_faults)
    if (f.kind == DiskFault::Kind::kError && f.active(machine, now()))
      fails = f.probability >= 1 || disk_random_.next_double() < f.probability || fails;
  return fails;
}

std::uint64_t Core::disk_capacity(int machine) const {
  std::uint64_t capacity = UINT64_MAX;
  for (const DiskFault& f : spec_.disk_faults)
    if (f.kind == DiskFault::Kind::kFull && f.active(machine, now()))
      capacity = std::min(capacity, f.capacity_bytes);
  return capacity;
}

void Core::pause(VirtualNode& node, TimeNs duration) {
  if (node.dead) return;
  node.paused = true;
  node.draining = false;
  const std::uint32_t epoch = ++node.pause_epoch;
  if (duration == kForever) return;
  at(nullptr, now() + duration, Label::kFault, [this, &node, epoch] {
    if (node.pause_epoch == epoch) resume(node);
  });
}

void Core::resume(VirtualNode& node) {
  if (node.dead || !node.paused) return;
  node.paused = false;
  ++node.pause_epoch;
  node.draining = true;
  soon(nullptr, Label::kDrain, [this, &node] { drain(node); });
  node.machine().cores.pump_soon();
}

void Core::mute(VirtualNode& node, TimeNs duration) {
  node.muted_until = duration == kForever ? kForever : std::max(node.muted_until, now() + duration);
}

void Core::slow(VirtualNode& node, double factor, TimeNs duration) {
  node.slow_factor *= factor;
  if (duration == kForever) return;
  at(nullptr, now() + duration, Label::kFault, [&node, factor] { node.slow_factor /= factor; });
}

}  // namespace virt

std::unique_ptr<VirtualWorld> make_virtual_world(WorldSpec spec) {
  return std::make_unique<virt::Core>(std::move(spec));
}

}  // namespace trireme::runtime
