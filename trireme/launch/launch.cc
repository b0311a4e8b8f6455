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

// sshd drops some of many connections that come at once (MaxStartups): they are made again, each time after a
// longer pause.
constexpr int kMostAttempts = 10;
constexpr TimeNs kAttemptPause = 200 * kMilli;

struct Rank {
  bool expendable = false, ended = false;
  RankExit exit;
};

struct Child {
  RankProcess start;
  int attempts = 1;
  std::unique_ptr<runtime::Process> process;
  bool ended = false, told_to_end = false;
  std::size_t report_bytes = 0;  // of the HostReport, taken so far
  bool piped() const { return start.process.input_pipe; }
};

struct Launch {
  std::vector<Rank> ranks;
  std::vector<Child> children;
  std::function<void(std::string_view)> output;
  std::size_t output_bytes = 0;  // of rank 0, passed on so far
  TimeNs grace = 0;
  TimeNs kill_at = kForever;
  int interrupts = 0;
};

void kill_the_rest(Launch& launch, TimeNs now) {
  launch.kill_at = kForever;
  for (Rank& rank : launch.ranks)
    if (!rank.ended) rank.exit.killed_by_launcher = true;
  for (Child& child : launch.children) {
    if (child.ended) continue;
    if (child.piped() && !child.told_to_end) {
      (void)child.process->write_input("end\n");
      child.told_to_end = true;
      launch.kill_at = now + kForEnd;
    } else {
      (void)child.process->signal(runtime::ProcessSignal::kKill);
    }
  }
}

void pass_on_interrupt(Launch& launch) {
  const char* word = launch.interrupts++ == 0 ? "stop\n" : "end\n";
  for (Child& child : launch.children) {
    if (child.ended) continue;
    if (child.piped())
      (void)child.process->write_input(word);
    else
      (void)child.process->signal(runtime::ProcessSignal::kInterrupt);
  }
}

// Whether the job is over for the others when this rank has ended so.
bool ends_the_job(const Launch& launch, const Rank& rank) {
  if (!rank.exit.status.ok()) return !rank.expendable;
  const bool some =
      std::any_of(launch.ranks.begin(), launch.ranks.end(), [](const Rank& r) { return r.expendable; });
  return some && &rank == &launch.ranks[0];
}

void note_end(Launch& launch, int r, runtime::ExitStatus status, TimeNs now) {
  Rank& rank = launch.ranks[static_cast<std::size_t>(r)];
  if (rank.ended) return;
  rank.ended = true;
  rank.exit.status = status;
  if (ends_the_job(launch, rank) && launch.kill_at == kForever) launch.kill_at = now + launch.grace;
}

bool is_ending(const Launch& launch) { return launch.interrupts > 0 || launch.kill_at != kForever; }

// ssh ended before it had logged in, and may succeed a moment later. Its last words are in the host's report.
Task<bool> was_dropped(runtime::Runtime& rt, const Launch& launch, const Child& child,
                       const runtime::ExitStatus& exit) {
  constexpr int kCodeOfSsh = 255;
  const std::string& path = child.start.process.stderr_path;
  if (!child.piped() || exit.signal != 0 || exit.code != kCodeOfSsh || path.empty()) co_return false;
  if (child.attempts >= kMostAttempts || is_ending(launch)) co_return false;
  const Result<Bytes> log = co_await rt.files().read(path);
  co_return log.ok() && is_dropped_connection(as_text(*log));
}

std::string last_line(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

// Passes on what rank 0 has written and notes which ranks have ended.
Task<void> take_report(runtime::Runtime& rt, Launch& launch, Child& child) {
  const Result<Bytes> file = co_await rt.files().read(child.start.process.stdout_path);
  if (!file.ok() || file->size() == child.report_bytes) co_return;
  child.report_bytes = file->size();
  const HostReport report = parse_report(as_text(*file), child.start.mark);
  for (const int r : child.start.ranks) {
    RankExit& exit = launch.ranks[static_cast<std::size_t>(r)].exit;
    const auto found = report.ranks.find(r);
    if (r > 0) exit.said = found == report.ranks.end() ? report.other : last_line(found->second.text);
    if (found == report.ranks.end()) continue;
    if (r == 0 && launch.output) {
      launch.output(std::string_view(found->second.text).substr(launch.output_bytes));
      launch.output_bytes = found->second.text.size();
    }
    if (found->second.code) note_end(launch, r, {*found->second.code, 0}, rt.now());
  }
}

// A connection that ends well has told how its ranks ended; one that has not is no success.
runtime::ExitStatus status_of(const Child& child, const runtime::ExitStatus& exit) {
  return exit.ok() && !child.start.mark.empty() ? runtime::ExitStatus{1, 0} : exit;
}

Task<Status> watch(runtime::Runtime& rt, Launch& launch, Child& child) {
  for (;;) {
    Result<runtime::ExitStatus> exit = co_await child.process->wait(rt.now() + kLook);
    bool dropped = false;
    if (exit.ok()) dropped = co_await was_dropped(rt, launch, child, *exit);
    if (dropped) {
      co_await rt.sleep_for(kAttemptPause * child.attempts++);
      if (!is_ending(launch)) {
        auto again = rt.processes().spawn(child.start.process);
        if (!again.ok()) co_return again.status();
        child.process = std::move(*again);
        continue;
      }
    }
    if (!child.start.mark.empty()) co_await take_report(rt, launch, child);
    if (exit.ok()) {
      child.ended = true;
      for (const int r : child.start.ranks) note_end(launch, r, status_of(child, *exit), rt.now());
      co_return Status();
    }
    if (exit.status().code() != Code::kDeadline) co_return exit.status();
    if (rt.now() >= launch.kill_at) kill_the_rest(launch, rt.now());
  }
}

}  // namespace

Task<Result<std::vector<RankExit>>> launch_ranks(runtime::Runtime& rt, std::vector<RankProcess> processes,
                                                 LaunchSpec spec) {
  Launch launch;
  launch.grace = spec.grace;
  launch.output = std::move(spec.output);
  launch.ranks.resize(static_cast<std::size_t>(spec.world));
  for (std::size_t r = 0; r < launch.ranks.size(); ++r)
    launch.ranks[r].expendable = r < spec.expendable.size() && spec.expendable[r];
  for (RankProcess& process : processes) {
    Child& child = launch.children.emplace_back();
    child.start = std::move(process);
    auto started = rt.processes().spawn(child.start.process);
    if (!started.ok()) co_return started.status();
    child.process = std::move(*started);
  }
  rt.on_interrupt([&launch] { pass_on_interrupt(launch); });
  std::vector<Task<Status>> watches;
  for (Child& child : launch.children) watches.push_back(watch(rt, launch, child));
  Status status = co_await runtime::when_all(rt, std::move(watches));
  rt.on_interrupt(nullptr);
  if (!status.ok()) co_return status;
  std::vector<RankExit> exits;
  for (const Rank& rank : launch.ranks) exits.push_back(rank.exit);
  co_return exits;
}

Task<Result<std::vector<RankExit>>> launch_local(runtime::Runtime& rt, LaunchSpec spec) {
  std::vector<RankProcess> ranks;
  const auto n = static_cast<std::size_t>(spec.world);
  for (std::size_t r = 0; r < n; ++r) {
    runtime::ProcessSpec process;
    process.argv = spec.argv;
    process.own_group = true;
    process.env = {{"TRIREME_RANK", std::to_string(r)},
                   {"TRIREME_WORLD", std::to_string(n)},
                   {"TRIREME_RENDEZVOUS", spec.rendezvous}};
    if (r > 0 && r < spec.log_paths.size()) process.stdout_path = process.stderr_path = spec.log_paths[r];
    ranks.push_back({std::move(process), {static_cast<int>(r)}});
  }
  co_return co_await launch_ranks(rt, std::move(ranks), std::move(spec));
}

}  // namespace trireme::launch
