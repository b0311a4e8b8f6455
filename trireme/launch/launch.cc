#include "trireme/launch/launch.h"

#include <algorithm>

#include "trireme/launch/remote.h"
#include "trireme/runtime/files.h"

namespace trireme::launch {
namespace {

using runtime::Task;

constexpr TimeNs kLook = 50 * kMilli;  // how often a waiting launcher looks at the deadline

// Behind a pipe (remote.h) "end" comes first: the death of ssh would leave its rank a minute.
constexpr TimeNs kForEnd = 2 * kSecond;

// A host with many slots gets as many connections at once, and sshd drops some from the tenth on
// (MaxStartups): they are made again, each time after a longer pause.
constexpr int kMostAttempts = 10;
constexpr TimeNs kAttemptPause = 200 * kMilli;

struct Rank {
  runtime::ProcessSpec spec;
  int attempts = 1;
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

bool is_ending(const Ranks& ranks) { return ranks.interrupts > 0 || ranks.kill_at != kForever; }

// ssh ended before it had logged in, and may succeed a moment later. Its last words are in the rank's log.
Task<bool> was_dropped(runtime::Runtime& rt, const Ranks& ranks, const Rank& rank,
                       const runtime::ExitStatus& exit) {
  constexpr int kCodeOfSsh = 255;
  if (!rank.piped || exit.signal != 0 || exit.code != kCodeOfSsh || rank.spec.stderr_path.empty())
    co_return false;
  if (rank.attempts >= kMostAttempts || is_ending(ranks)) co_return false;
  const Result<Bytes> log = co_await rt.files().read(rank.spec.stderr_path);
  co_return log.ok() && is_dropped_connection(as_text(*log));
}

Task<Status> watch(runtime::Runtime& rt, Ranks& ranks, Rank& rank) {
  for (;;) {
    Result<runtime::ExitStatus> exit = co_await rank.process->wait(rt.now() + kLook);
    bool dropped = false;
    if (exit.ok()) dropped = co_await was_dropped(rt, ranks, rank, *exit);
    if (dropped) {
      co_await rt.sleep_for(kAttemptPause * rank.attempts++);
      if (!is_ending(ranks)) {
        auto again = rt.processes().spawn(rank.spec);
        if (!again.ok()) co_return again.status();
        rank.process = std::move(*again);
        continue;
      }
    }
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
    rank.spec = std::move(specs[r]);
    auto started = rt.processes().spawn(rank.spec);
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
