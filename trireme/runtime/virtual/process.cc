// Processes of a virtual machine: the world's program in a new Runtime on the machine of its parent.
#include "trireme/runtime/processes.h"

#include <fmt/ranges.h>

#include "trireme/runtime/virtual/core.h"

namespace trireme::runtime::virt {

// What parent and child share; outlives the parent's handle.
struct ProcessState {
  ProcessState(VirtualNode& p, VirtualNode& c) : parent(p), child(c) {}
  VirtualNode &parent, &child;
  std::optional<ExitStatus> exit;  // as the parent knows it
  std::vector<OneShot<bool>*> waiters;
};

void process_ended(const std::shared_ptr<ProcessState>& process, ExitStatus status) {
  process->parent.core.soon(&process->parent, Label::kProcess, [process, status] {
    process->exit = status;
    for (OneShot<bool>* waiter : std::exchange(process->waiters, {})) waiter->set(true);
  });
}

namespace {

constexpr int kSignalInterrupt = 2, kSignalTerminate = 15;

using Environment = std::vector<std::pair<std::string, std::string>>;

Detached run_program(VirtualNode& node, std::vector<std::string> argv, Environment env) {
  const std::shared_ptr<const VirtualProgram> program = node.program;
  const int code = co_await (*program)(node, std::move(argv), std::move(env));
  node.core.end(node, {.code = code, .signal = 0}, /*lose_files=*/false);
}

Task<Result<ExitStatus>> wait_for(std::shared_ptr<ProcessState> process, TimeNs deadline) {
  while (!process->exit) {
    OneShot<bool> shot(process->parent);
    struct Waits {
      ProcessState& process;
      OneShot<bool>* shot;
      ~Waits() { std::erase(process.waiters, shot); }
    } const waits{*process, &shot};
    process->waiters.push_back(&shot);
    if (!co_await shot.wait_until(deadline))
      co_return error(Code::kDeadline, "[runtime] process '{}' was still running at the deadline",
                      process->child.name());
  }
  co_return *process->exit;
}

class VirtualProcess final : public Process {
 public:
  explicit VirtualProcess(std::shared_ptr<ProcessState> state) : state_(std::move(state)) {}
  ~VirtualProcess() override {
    state_->parent.act([state = state_] { state->child.core.kill(state->child); });
  }
  std::int64_t pid() const override { return state_->child.index + 1; }
  Task<Result<ExitStatus>> wait(TimeNs deadline) override { return wait_for(state_, deadline); }

  Status signal(ProcessSignal signal) override {
    if (state_->exit)
      return error(Code::kNotFound, "[runtime] process '{}' has ended: it takes no signal",
                   state_->child.name());
    state_->parent.act([state = state_, signal] { carry_out(state->child, signal); });
    return {};
  }

 private:
  static void carry_out(VirtualNode& child, ProcessSignal signal) {
    if (child.dead) return;
    switch (signal) {
      case ProcessSignal::kInterrupt:
        child.interrupt(kSignalInterrupt);
        break;
      case ProcessSignal::kTerminate:
        child.interrupt(kSignalTerminate);
        break;
      case ProcessSignal::kKill:
        child.core.kill(child);
        break;
      case ProcessSignal::kPause:
        child.core.pause(child, kForever);
        break;
      case ProcessSignal::kContinue:
        child.core.resume(child);
        break;
    }
  }

  std::shared_ptr<ProcessState> state_;
};

class VirtualProcesses final : public Processes {
 public:
  explicit VirtualProcesses(VirtualNode& node) : node_(node) {}

  Result<std::unique_ptr<Process>> spawn(ProcessSpec spec) override {
    Core& core = node_.core;
    if (!core.program())
      return error(Code::kNotFound, "[runtime] the world has no program to run as '{}'; call set_program",
                   fmt::join(spec.argv, " "));
    VirtualNode& child = core.add_node(node_.machine_index, fmt::format("{}", fmt::join(spec.argv, " ")));
    auto state = std::make_shared<ProcessState>(node_, child);
    child.process = state;
    child.program = core.program();
    node_.act([&child, argv = std::move(spec.argv), env = std::move(spec.env)] {
      child.start_detached(run_program(child, argv, env));
    });
    return std::unique_ptr<Process>(std::make_unique<VirtualProcess>(std::move(state)));
  }

 private:
  VirtualNode& node_;
};

}  // namespace

std::unique_ptr<Processes> make_virtual_processes(VirtualNode& node) {
  return std::make_unique<VirtualProcesses>(node);
}

}  // namespace trireme::runtime::virt
