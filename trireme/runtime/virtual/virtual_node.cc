// One Runtime of a virtual world.
#include "trireme/runtime/virtual/core.h"
#include "trireme/runtime/virtual/local_network.h"

namespace trireme::runtime::virt {
namespace {

// 2020-01-01T00:00:00Z: calendar time of a virtual world, the same in every run.
constexpr std::int64_t kEpochUnixNs = 1'577'836'800LL * kSecond;

Detached run_task(VirtualNode& node, Task<void> task, bool is_root) {
  co_await std::move(task);
  if (is_root && !node.dead) node.core.root_ended(node);
}

}  // namespace

VirtualNode::VirtualNode(Core& world, int index_in_world, int machine_number, std::string name)
    : core(world),
      index(index_in_world),
      machine_index(machine_number),
      local_network(std::make_unique<LocalNetwork>(*this)),
      name_(std::move(name)),
      files_(make_virtual_files(*this)),
      processes_(make_virtual_processes(*this)) {}

VirtualNode::~VirtualNode() = default;

bool VirtualNode::is_phantom() const { return core.spec().phantom; }
TimeNs VirtualNode::now() const { return core.now(); }
std::int64_t VirtualNode::unix_time_ns() const { return kEpochUnixNs + core.now(); }
Machine& VirtualNode::machine() const { return core.machine(machine_index); }
Network& VirtualNode::network() { return *local_network; }
int VirtualNode::compute_threads() const { return machine().cores.num_cores(); }

void VirtualNode::spawn(Task<void> task) {
  if (!dead) start_detached(run_task(*this, std::move(task), /*is_root=*/false));
}

void VirtualNode::start_root(Task<void> task) {
  ++num_roots;
  start_detached(run_task(*this, std::move(task), /*is_root=*/true));
}

void VirtualNode::start_detached(Detached detached) {
  core.soon(this, Label::kTask, [handle = detached.handle] { handle.resume(); });
}

void VirtualNode::destroy_tasks() {
  while (first_task) std::coroutine_handle<Detached::promise_type>::from_promise(*first_task).destroy();
}

void VirtualNode::post(Callback fn) {
  if (!dead) core.soon(this, Label::kPost, std::move(fn));
}

TimerId VirtualNode::call_at(TimeNs when, Callback fn) {
  return dead ? 0 : core.at(this, when, Label::kTimer, std::move(fn));
}

void VirtualNode::cancel_timer(TimerId id) { core.cancel(id); }

void VirtualNode::start_compute(ComputeRequest request) {
  if (!dead) machine().cores.submit(*this, std::move(request));
}

void VirtualNode::log(std::string_view line) {
  act([this, text = std::string(line)] {
    core.trace().add(hash_text(text));
    log_lines.push_back(text);
  });
}

void VirtualNode::interrupt(int signal) {
  core.soon(this, Label::kProcess, [this, signal] {
    if (!interrupt_) {
      core.end(*this, {.code = 0, .signal = signal}, /*lose_files=*/false);
      return;
    }
    // The handler may replace itself while it runs.
    Callback handler = std::move(interrupt_);
    interrupt_ = nullptr;
    handler();
    if (!interrupt_) interrupt_ = std::move(handler);
  });
}

FaultAction VirtualNode::fault_point(std::string_view site, std::uint64_t point) {
  if (dead || paused) return FaultAction::kNone;
  if (pending_action != FaultAction::kNone) return std::exchange(pending_action, FaultAction::kNone);
  for (std::size_t i = 0; i < faults.size(); ++i)
    if (faults[i].site == site && faults[i].index == point) {
      const FaultSpec fault = faults[i];
      faults.erase(faults.begin() + static_cast<std::ptrdiff_t>(i));
      return strike(fault);
    }
  return FaultAction::kNone;
}

FaultAction VirtualNode::strike(const FaultSpec& fault) {
  core.trace().add(hash_text(fault.site) ^ fault.index);
  switch (fault.kind) {
    case FaultSpec::Kind::kKill:
      core.kill(*this);
      break;
    case FaultSpec::Kind::kPause:
      core.pause(*this, fault.duration);
      break;
    case FaultSpec::Kind::kMute:
      core.mute(*this, fault.duration);
      break;
    case FaultSpec::Kind::kSlow:
      core.slow(*this, fault.factor, fault.duration);
      break;
    case FaultSpec::Kind::kRestart:
      core.restart(*this, fault.duration);
      break;
    case FaultSpec::Kind::kMiscall:
      return FaultAction::kMiscall;
    case FaultSpec::Kind::kError:
      return FaultAction::kError;
  }
  return FaultAction::kNone;
}

}  // namespace trireme::runtime::virt
