#include "trireme/launch/launch.h"

#include <algorithm>

namespace trireme::launch {
namespace {

using runtime::Task;

constexpr TimeNs kLook = 50 * kMilli;  // how often a waiting launcher looks at the deadline

// Behind a pipe (remote.h) "end" comes first: the death of ssh would leave its rank a minute.
constexpr TimeNs kForEnd = 2 * kSecond;

struct Rank {
  std::unique_ptr<runtime::Process> process;
  bool piped = false, expendable = false;
  bool ended = false, told_to_end = false;
  RankExit exit;
};

struct Ranks {
  std::vector<Rank> all;
  TimeNs grace = 0;
  TimeNs kill_at = kForever;
  int interrupts = 0;
};

void kill_the_rest(Ranks& ranks, TimeNs now) {
  ranks.kill_at = kForever;
  for (Rank& rank : ranks.all) {
    if (rank.ended) continue;
    rank.exit.killed_by_launcher = true;
    if (rank.piped && !rank.told_to_end) {
      (void)rank.process->write_input("end\n");
      rank.told_to_end = true;
      ranks.kill_at = now + kForEnd;
    } else {
      (void)rank.process->signal(runtime::ProcessSignal::kKill);
    }
  }
}

void pass_on_interrupt(Ranks& ranks) {
  const char* word = ranks.interrupts++ == 0 ? "stop\n" : "end\n";
  for (Rank& rank : ranks.all) {
    if (rank.ended) continue;
    if (rank.piped)
      (void)rank.process->write_input(word);
    else
      (void)rank.process->signal(runtime::ProcessSignal::kInterrupt);
  }
}

// Whether the job is over for the others when this rank has ended so.
bool ends_the_job(const Ranks& ranks, const Rank& rank) {
  if (!rank.exit.status.ok()) return !rank.expendable;
  const bool some =
      std::any_of(ranks.all.begin(), ranks.all.end(), [](const Rank& r) { return r.expendable; });
  return some && &rank == &ranks.all[0];
}

Task<Status> watch(runtime::Runtime& rt, Ranks& ranks, Rank& rank) {
  for (;;) {
    Result<runtime::ExitStatus> exit = co_await rank.process->wait(rt.now() + kLook);
    if (exit.ok()) {
      rank.ended = true;
      rank.exit.status = *exit;
      if (ends_the_job(ranks, rank) && ranks.kill_at == kForever) ranks.kill_at = rt.now() + ranks.grace;
      co_return Status();
    }
    if (exit.status().code() != Code::kDeadline) co_return exit.status();
    if (rt.now() >= ranks.kill_at) kill_the_rest(ranks, rt.now());
  }
}

}  // namespace

Task<Result<std::vector<RankExit>>> launch_ranks(runtime::Runtime& rt,
                                                 std::vector<runtime::ProcessSpec> specs, LaunchSpec spec) {
  Ranks ranks;
  ranks.grace = spec.grace;
  for (std::size_t r = 0; r < specs.size(); ++r) {
    Rank& rank = ranks.all.emplace_back();
    rank.piped = specs[r].input_pipe;
    rank.expendable = r < spec.expendable.size() && spec.expendable[r];
    auto started = rt.processes().spawn(std::move(specs[r]));
    if (!started.ok()) co_return started.status();
    rank.process = std::move(*started);
  }
  rt.on_interrupt([&ranks] { pass_on_interrupt(ranks); });
  std::vector<Task<Status>> watches;
  for (Rank& rank : ranks.all) watches.push_back(watch(rt, ranks, rank));
  Status status = co_await runtime::when_all(rt, std::move(watches));
  rt.on_interrupt(nullptr);
  if (!status.ok()) co_return status;
  std::vector<RankExit> exits;
  for (const Rank& rank : ranks.all) exits.push_back(rank.exit);
  co_return exits;
}

Task<Result<std::vector<RankExit>>> launch_local(runtime::Runtime& rt, LaunchSpec spec) {
  std::vector<runtime::ProcessSpec> ranks;
  const auto n = static_cast<std::size_t>(spec.world);
  for (std::size_t r = 0; r < n; ++r) {
    runtime::ProcessSpec process;
    process.argv = spec.argv;
    process.own_group = true;
    process.env = {{"TRIREME_RANK", std::to_string(r)},
                   {"TRIREME_WORLD", std::to_string(n)},
                   {"TRIREME_RENDEZVOUS", spec.rendezvous}};
    if (r > 0 && r < spec.log_paths.size()) process.stdout_path = process.stderr_path = spec.log_paths[r];
    ranks.push_back(std::move(process));
  }
  co_return co_await launch_ranks(rt, std::move(ranks), std::move(spec));
}

}  // namespace trireme::launch
