// Ranks as processes: this program starts itself once per rank.
#include "tests/comm/no_hang_processes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/comm/mute.h"
#include "tests/comm/no_hang.h"
#include "trireme/runtime/processes.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::comm::testing {
namespace {

using collective::Kind;

constexpr const char* kRole =
    "TRIREME_NO_HANG_RANK";  // "TRANSPORT CASE RANK DIRECTORY"; mpirun gives the rank
constexpr const char* kFilter = "--gtest_filter=*NoHangProcesses.*";
constexpr TimeNs kWatchdog = 200 * kSecond;

struct Case {
  Trouble trouble;
  int world, culprit, op;
};
// Those that wait for a deadline come first, so that they wait together.
constexpr Case kCases[] = {
    {Trouble::kLongPause, 2, 0, 2},  {Trouble::kLongPause, 3, 2, 0},      {Trouble::kLongPause, 4, 1, 5},
    {Trouble::kLongMute, 3, 1, 0},   {Trouble::kLongMute, 3, 0, 4},       {Trouble::kLongMute, 4, 3, 5},
    {Trouble::kMissing, 3, 1, 4},    {Trouble::kMissing, 4, 2, 7},        {Trouble::kExtra, 3, 2, 2},
    {Trouble::kShortPause, 3, 1, 3}, {Trouble::kNone, 4, 0, 0},           {Trouble::kKill, 2, 1, 0},
    {Trouble::kKill, 3, 0, 3},       {Trouble::kKill, 4, 2, 7},           {Trouble::kOtherKind, 3, 1, 1},
    {Trouble::kOtherKind, 4, 0, 5},  {Trouble::kOtherRoot, 3, 2, 1},      {Trouble::kOtherRoot, 4, 1, 6},
    {Trouble::kOtherCount, 3, 0, 0}, {Trouble::kOtherCount, 4, 3, 3},     {Trouble::kOtherDtype, 2, 1, 0},
    {Trouble::kError, 3, 1, 6},      {Trouble::kOtherReduction, 3, 1, 3},
};
constexpr std::size_t kCasesAtOnce = 12;
constexpr int kNumCases = static_cast<int>(std::size(kCases));

std::vector<Op> ops() {
  const auto op = [](Kind kind, std::int64_t count, int root, const char* algorithm) {
    Op o;
    o.kind = kind;
    o.count = count;
    o.root = root;
    o.algorithm = algorithm;
    return o;
  };
  std::vector<Op> list{op(Kind::kAllreduce, 1000, 0, ""), op(Kind::kBroadcast, 100, 1, ""),
                       op(Kind::kGather, 50, 0, ""),      op(Kind::kAllreduce, 400'000, 0, "ring"),
                       op(Kind::kBarrier, 0, 0, ""),      op(Kind::kAllToAll, 70, 0, ""),
                       op(Kind::kReduce, 10, 0, ""),      op(Kind::kScatter, 30, 1, ""),
                       op(Kind::kAllgather, 20, 0, "")};
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].number = static_cast<int>(i);
    list[i].slot = static_cast<std::uint16_t>(i);
  }
  return list;
}

// One rank: plays its part and writes down what it was told, one field per line.
struct Told {
  std::string code, culprit, operation, reason, constant;
  static Told read(const std::string& path) {
    Told t;
    std::ifstream in(path);
    std::getline(in, t.code);
    std::getline(in, t.culprit);
    std::getline(in, t.operation);
    std::getline(in, t.reason);
    std::getline(in, t.constant);
    return t;
  }
  std::string text() const { return fmt::format("{} | {} | {} | {}", code, culprit, operation, reason); }
};

bool mutes(Trouble t) { return t == Trouble::kLongMute; }

runtime::Task<void> play_part(runtime::Runtime& rt, const Case& c, Group& group, Mute* mute,
                              std::string path) {
  Status first;
  for (Op op : ops()) {
    if (group.rank() == c.culprit && op.number == c.op) {
      std::ofstream(path + ".struck") << "now";
      if (mutes(c.trouble)) mute->begin(kForever);
      if (c.trouble == Trouble::kMissing) continue;
      if (c.trouble == Trouble::kExtra) {
        Op extra = extra_op(c.culprit, 0, /*seed=*/2);
        first = co_await make_call(group, std::move(extra));
        if (!first.ok()) break;
      }
      op = deviate(op, c.trouble, group.world(), /*seed=*/1);
    }
    first = co_await make_call(group, std::move(op));
    if (!first.ok()) break;
  }
  Call later;
  later.slot = 800;
  Status after;
  if (!first.ok()) after = co_await group.barrier(later);
  const Status left = co_await group.leave();
  if (first.ok()) first = after = left;
  const bool constant = first.message() == after.message() && first.message() == left.message();
  std::ofstream out(path + ".part");
  out << code_name(first.code()) << '\n'
      << first.context().peer.value_or(-1) << '\n'
      << first.context().operation << '\n'
      << first.context().reason << '\n'
      << (constant ? "constant" : left.message()) << '\n';
  out.close();
  std::filesystem::rename(path + ".part", path);
  (void)rt;
}

bool goes_away(Trouble t) {
  return t == Trouble::kKill || t == Trouble::kLongPause || t == Trouble::kLongMute;
}
std::string told_path(const std::string& dir, int rank) { return fmt::format("{}/told-{}", dir, rank); }

// mpirun ends the others when the first rank ends with an error: let them write down theirs.
runtime::Task<void> await_the_others(runtime::Runtime& rt, const Case& c, std::string dir) {
  const auto all_told = [&] {
    for (int rank = 0; rank < c.world; ++rank)
      if (!(rank == c.culprit && goes_away(c.trouble)) && !std::filesystem::exists(told_path(dir, rank)))
        return false;
    return true;
  };
  for (const TimeNs end = rt.now() + 10 * kSecond; !all_told() && rt.now() < end;)
    co_await rt.sleep_for(5 * kMilli);
}

[[noreturn]] void be_a_rank(const std::string& role) {
  std::istringstream in(role);
  std::string transport, dir;
  int number = 0, rank = 0;
  in >> transport >> number >> rank >> dir;
  if (const char* given = std::getenv("OMPI_COMM_WORLD_RANK")) rank = std::atoi(given);
  const Case& c = kCases[number];
  runtime::RealOptions real;
  real.compute_threads = 1;
  real.spin_ns = 0;
  using RealKind = runtime::RealFault::Kind;
  const auto index = static_cast<std::uint64_t>(c.op + 1);
  if (rank == c.culprit && c.trouble == Trouble::kKill)
    real.faults = {{RealKind::kKill, "collective", index}};
  if (rank == c.culprit && c.trouble == Trouble::kError)
    real.faults = {{RealKind::kError, "collective", index}};
  if (rank == c.culprit && (c.trouble == Trouble::kLongPause || c.trouble == Trouble::kShortPause))
    real.faults = {{RealKind::kPause, "collective", index}};
  const auto rt = runtime::make_real_runtime(real);
  RankOptions options;
  options.world = c.world;
  options.transport = transport;
  options.rendezvous = dir;
  options.ring_bytes = 64 << 10;
  options.group.spin_ns = 0;
  Mute* mute = nullptr;
  if (mutes(c.trouble))
    options.wrap = [&mute](runtime::Runtime& r, std::unique_ptr<net::Transport> inner) {
      return make_mute_transport(r, std::move(inner), &mute);
    };
  const Body body = [&](runtime::Runtime& r, Group& group) {
    return play_part(r, c, group, mute, told_path(dir, rank));
  };
  rt->run(run_rank(*rt, rank, options, body));
  rt->run(await_the_others(*rt, c, dir));
  std::_Exit(Told::read(told_path(dir, rank)).code == "ok" ? 0 : 1);
}

runtime::Task<Status> ended(runtime::Process& process, TimeNs end) {
  const Result<runtime::ExitStatus> exit = co_await process.wait(end);
  co_return exit.ok() ? Status() : exit.status();
}

runtime::Task<Status> run_case_by_mpirun(runtime::Runtime& rt, int number, std::string dir) {
  const char* mpirun = std::getenv("TRIREME_MPIRUN");
  runtime::ProcessSpec spec;
  spec.argv = {mpirun != nullptr ? mpirun : "/usr/bin/mpirun", "-n", std::to_string(kCases[number].world),
               std::filesystem::read_symlink("/proc/self/exe"), kFilter};
  spec.env = {{kRole, fmt::format("mpi {} 0 {}", number, dir)}};
  spec.stdout_path = spec.stderr_path = dir + "/log";
  TR_CO_ASSIGN_OR_RETURN(auto process, rt.processes().spawn(std::move(spec)));
  co_return co_await ended(*process, rt.now() + kWatchdog);
}

// Starts the ranks of a case and waits for all of them. A rank that stops itself goes on when the others have
// ended, or soon.
runtime::Task<Status> run_case(runtime::Runtime& rt, std::string transport, int number, std::string dir) {
  const Case& c = kCases[number];
  const TimeNs end = rt.now() + kWatchdog;
  std::vector<std::unique_ptr<runtime::Process>> ranks;
  for (int rank = 0; rank < c.world; ++rank) {
    runtime::ProcessSpec spec;
    spec.argv = {std::filesystem::read_symlink("/proc/self/exe"), kFilter};
    spec.env = {{kRole, fmt::format("{} {} {} {}", transport, number, rank, dir)}};
    spec.stdout_path = spec.stderr_path = fmt::format("{}/log-{}", dir, rank);
    TR_CO_ASSIGN_OR_RETURN(auto process, rt.processes().spawn(std::move(spec)));
    ranks.push_back(std::move(process));
  }
  runtime::Process& culprit = *ranks[static_cast<std::size_t>(c.culprit)];
  if (c.trouble == Trouble::kShortPause) {
    const std::string struck = told_path(dir, c.culprit) + ".struck";
    while (!std::filesystem::exists(struck) && rt.now() < end) co_await rt.sleep_for(5 * kMilli);
    co_await rt.sleep_for(400 * kMilli);
    TR_CO_RETURN_IF_ERROR(culprit.signal(runtime::ProcessSignal::kContinue));
  }
  for (int rank = 0; rank < c.world; ++rank)
    if (rank != c.culprit) TR_CO_RETURN_IF_ERROR(co_await ended(*ranks[static_cast<std::size_t>(rank)], end));
  if (c.trouble == Trouble::kLongPause)
    TR_CO_RETURN_IF_ERROR(culprit.signal(runtime::ProcessSignal::kContinue));
  co_return co_await ended(culprit, end);
}

// What the ranks must have been told; "": it does not matter.
struct Expected {
  std::string code, reason;
  std::set<std::string> culprits;
  std::string operation;
};
Expected expected_of(const Case& c, const std::string& transport) {
  Expected e;
  e.operation = fmt::format("op {}", c.op);
  if (c.world > 2 || c.trouble < Trouble::kOtherKind) e.culprits = {std::to_string(c.culprit)};
  switch (c.trouble) {
    case Trouble::kKill:
      // Who was through with the call may be in a later one.
      return {"peer lost", "connection closed", e.culprits, ""};
    case Trouble::kLongPause:
    case Trouble::kLongMute:
      // MPI may not have sent the first heartbeat yet: "never heard of for".
      return {"peer lost", transport == "mpi" && c.op == 0 ? " for " : "silent for", e.culprits, ""};
    case Trouble::kError:
      return {"internal", "injected failure", e.culprits, e.operation};
    case Trouble::kMissing:
    case Trouble::kExtra:
      return {"", "", e.culprits, ""};
    default:
      return {"mismatch", "called", e.culprits, e.operation};
  }
}

void check_case(const std::string& transport, int number, const std::string& dir) {
  const Case& c = kCases[number];
  SCOPED_TRACE(fmt::format("{}: {} of rank {} of {} at op {}", transport, trouble_name(c.trouble), c.culprit,
                           c.world, c.op));
  const bool harmless = c.trouble == Trouble::kNone || c.trouble == Trouble::kShortPause;
  std::set<std::string> verdicts;
  for (int rank = 0; rank < c.world; ++rank) {
    const bool away = rank == c.culprit && goes_away(c.trouble);
    // mpirun ends one that is away with the others.
    if (away && (c.trouble == Trouble::kKill || transport == "mpi")) continue;
    const Told t = Told::read(told_path(dir, rank));
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, t.text()));
    EXPECT_EQ(t.constant, "constant");
    if (harmless) {
      EXPECT_EQ(t.code, "ok");
      continue;
    }
    EXPECT_NE(t.code, "ok");
    // Who was away ends with an error of its own.
    if (away) continue;
    const Expected e = expected_of(c, transport);
    EXPECT_TRUE(e.code.empty() || t.code == e.code);
    EXPECT_NE(t.reason.find(e.reason), std::string::npos);
    EXPECT_TRUE(e.culprits.empty() || e.culprits.count(t.culprit) == 1);
    EXPECT_FALSE(t.operation.empty());
    EXPECT_NE(t.operation.find(e.operation), std::string::npos);
    verdicts.insert(t.text());
  }
  EXPECT_EQ(verdicts.size(), harmless ? 0U : 1U);
}

// With MPI a killed rank ends the job, and mpirun says so (tests/mpirun).
std::vector<int> cases_of(const std::string& transport) {
  std::vector<int> numbers;
  for (int number = 0; number < kNumCases; ++number) {
    const Trouble t = kCases[number].trouble;
    if (transport != "mpi" || (t != Trouble::kKill && t != Trouble::kShortPause)) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void be_a_rank_if_asked() {
  if (const char* role = std::getenv(kRole)) be_a_rank(role);
}

// Some cases at once: most of the time they wait.
void check_processes(const std::string& transport) {
  std::string base = ::testing::TempDir() + "trireme-no-hang-XXXXXX";
  ASSERT_NE(mkdtemp(base.data()), nullptr);
  const auto rt = runtime::make_real_runtime({});
  const auto dir_of = [&](int number) { return fmt::format("{}/{}", base, number); };
  const auto run_some = [&](std::span<const int> numbers) -> runtime::Task<void> {
    std::vector<runtime::Task<Status>> worlds;
    for (const int number : numbers) {
      std::filesystem::create_directory(dir_of(number));
      worlds.push_back(transport == "mpi" ? run_case_by_mpirun(*rt, number, dir_of(number))
                                          : run_case(*rt, transport, number, dir_of(number)));
    }
    const Status status = co_await runtime::when_all(*rt, std::move(worlds));
    EXPECT_TRUE(status.ok()) << "watchdog: " << status.to_string();
  };
  const std::vector<int> numbers = cases_of(transport);
  for (std::size_t first = 0; first < numbers.size(); first += kCasesAtOnce)
    rt->run(run_some(std::span(numbers).subspan(first, std::min(kCasesAtOnce, numbers.size() - first))));
  for (const int number : numbers) check_case(transport, number, dir_of(number));
  if (!::testing::Test::HasFailure()) std::filesystem::remove_all(base);
}

}  // namespace trireme::comm::testing
