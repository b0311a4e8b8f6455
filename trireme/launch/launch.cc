#include "trireme/launch/launch.h"

namespace trireme::launch {
namespace {

using runtime::Task;

constexpr TimeNs kLook = 50 * kMilli;  // how often a waiting launcher looks at the deadline

struct Ranks {
  std::vector<std::unique_ptr<runtime::Process>> processes;
  std::vector<RankExit> exits;
  std::vector<bool> ended;
  TimeNs kill_at = kForever;

  std::size_t running() const {
    std::size_t n = 0;
    for (const bool e : ended) n += e ? 0 : 1;
    return n;
  }
};

void kill_the_rest(Ranks& ranks) {
  for (std::size_t r = 0; r < ranks.processes.size(); ++r) {
    if (ranks.ended[r]) continue;
    ranks.exits[r].killed_by_launcher = true;
    (void)ranks.processes[r]->signal(runtime::ProcessSignal::kKill);
  }
  ranks.kill_at = kForever;
}

Task<Status> watch(runtime::Runtime& rt, Ranks& ranks, std::size_t rank, TimeNs grace) {
  for (;;) {
    Result<runtime::ExitStatus> exit = co_await ranks.processes[rank]->wait(rt.now() + kLook);
    if (exit.ok()) {
      ranks.ended[rank] = true;
      ranks.exits[rank].status = *exit;
      if (!exit->ok() && ranks.kill_at == kForever) ranks.kill_at = rt.now() + grace;
      co_return Status();
    }
    if (exit.status().code() != Code::kDeadline) co_return exit.status();
    if (rt.now() >= ranks.kill_at) kill_the_rest(ranks);
  }
}

}  // namespace

Task<Result<std::vector<RankExit>>> launch_local(runtime::Runtime& rt, LaunchSpec spec) {
  Ranks ranks;
  const auto n = static_cast<std::size_t>(spec.world);
  ranks.exits.resize(n);
  ranks.ended.assign(n, false);
  for (std::size_t r = 0; r < n; ++r) {
    runtime::ProcessSpec process;
    process.argv = spec.argv;
    process.own_group = true;
    process.env = {{"TRIREME_RANK", std::to_string(r)},
                   {"TRIREME_WORLD", std::to_string(n)},
                   {"TRIREME_RENDEZVOUS", spec.rendezvous}};
    if (r > 0 && r < spec.log_paths.size()) process.stdout_path = process.stderr_path = spec.log_paths[r];
    auto started = rt.processes().spawn(std::move(process));
    if (!started.ok()) co_return started.status();
    ranks.processes.push_back(std::move(*started));
  }
  rt.on_interrupt([&ranks] {
    for (std::size_t r = 0; r < ranks.processes.size(); ++r)
      if (!ranks.ended[r]) (void)ranks.processes[r]->signal(runtime::ProcessSignal::kInterrupt);
  });
  std::vector<Task<Status>> watches;
  for (std::size_t r = 0; r < n; ++r) watches.push_back(watch(rt, ranks, r, spec.grace));
  Status status = co_await runtime::when_all(rt, std::move(watches));
  rt.on_interrupt(nullptr);
  if (!status.ok()) co_return status;
  co_return ranks.exits;
}

}  // namespace trireme::launch
