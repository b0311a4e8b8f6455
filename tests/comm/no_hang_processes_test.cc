// The same troubles with real processes: culprit, operation and reason under a watchdog. This program starts
// itself once per rank; in those TRIREME_NO_HANG_RANK says which part to play.
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

constexpr const char* kRole = "TRIREME_NO_HANG_RANK";  // "TRANSPORT CASE RANK DIRECTORY"
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
constexpr int kCasesAtOnce = 12;
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

[[noreturn]] void be_a_rank(const std::string& role) {
  std::istringstream in(role);
  std::string transport, dir;
  int number = 0, rank = 0;
  in >> transport >> number >> rank >> dir;
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
    return play_part(r, c, group, mute, fmt::format("{}/told-{}", dir, rank));
  };
  rt->run(run_rank(*rt, rank, options, body));
  std::_Exit(0);
}

// Starts the ranks of a case and waits for all of them. A rank that stops itself goes on when the others have
// ended, or soon.
runtime::Task<Status> run_case(runtime::Runtime& rt, std::string transport, int number, std::string dir) {
  const Case& c = kCases[number];
  const TimeNs end = rt.now() + kWatchdog;
  std::vector<std::unique_ptr<runtime::Process>> ranks;
  for (int rank = 0; rank < c.world; ++rank) {
    runtime::ProcessSpec spec;
    spec.argv = {std::filesystem::read_symlink("/proc/self/exe"), "--gtest_filter=*NoHangProcesses.*"};
    spec.env = {{kRole, fmt::format("{} {} {} {}", transport, number, rank, dir)}};
    spec.stdout_path = spec.stderr_path = fmt::format("{}/log-{}", dir, rank);
    TR_CO_ASSIGN_OR_RETURN(auto process, rt.processes().spawn(std::move(spec)));
    ranks.push_back(std::move(process));
  }
  runtime::Process& culprit = *ranks[static_cast<std::size_t>(c.culprit)];
  if (c.trouble == Trouble::kShortPause) {
    const std::string struck = fmt::format("{}/told-{}.struck", dir, c.culprit);
    while (!std::filesystem::exists(struck) && rt.now() < end) co_await rt.sleep_for(5 * kMilli);
    co_await rt.sleep_for(400 * kMilli);
    TR_CO_RETURN_IF_ERROR(culprit.signal(runtime::ProcessSignal::kContinue));
  }
  const auto ended = [&](runtime::Process& process) -> runtime::Task<Status> {
    const Result<runtime::ExitStatus> exit = co_await process.wait(end);
    co_return exit.ok() ? Status() : exit.status();
  };
  for (int rank = 0; rank < c.world; ++rank)
    if (rank != c.culprit) TR_CO_RETURN_IF_ERROR(co_await ended(*ranks[static_cast<std::size_t>(rank)]));
  if (c.trouble == Trouble::kLongPause)
    TR_CO_RETURN_IF_ERROR(culprit.signal(runtime::ProcessSignal::kContinue));
  co_return co_await ended(culprit);
}

// What the ranks must have been told; "": it does not matter.
struct Expected {
  std::string code, reason;
  std::set<std::string> culprits;
  std::string operation;
};
Expected expected_of(const Case& c) {
  Expected e;
  e.operation = fmt::format("op {}", c.op);
  if (c.world > 2 || c.trouble < Trouble::kOtherKind) e.culprits = {std::to_string(c.culprit)};
  switch (c.trouble) {
    case Trouble::kKill:
      // Who was through with the call may be in a later one.
      return {"peer lost", "connection closed", e.culprits, ""};
    case Trouble::kLongPause:
    case Trouble::kLongMute:
      return {"peer lost", "silent for", e.culprits, ""};
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
    if (rank == c.culprit && c.trouble == Trouble::kKill) continue;
    const Told t = Told::read(fmt::format("{}/told-{}", dir, rank));
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, t.text()));
    EXPECT_EQ(t.constant, "constant");
    if (harmless) {
      EXPECT_EQ(t.code, "ok");
      continue;
    }
    EXPECT_NE(t.code, "ok");
    // Who was away ends with an error of its own.
    if (rank == c.culprit && (c.trouble == Trouble::kLongPause || c.trouble == Trouble::kLongMute)) continue;
    const Expected e = expected_of(c);
    EXPECT_TRUE(e.code.empty() || t.code == e.code);
    EXPECT_NE(t.reason.find(e.reason), std::string::npos);
    EXPECT_TRUE(e.culprits.empty() || e.culprits.count(t.culprit) == 1);
    EXPECT_FALSE(t.operation.empty());
    EXPECT_NE(t.operation.find(e.operation), std::string::npos);
    verdicts.insert(t.text());
  }
  EXPECT_EQ(verdicts.size(), harmless ? 0U : 1U);
}

class NoHangProcesses : public ::testing::TestWithParam<const char*> {};

// Some cases at once: most of the time they wait.
TEST_P(NoHangProcesses, CulpritOperationAndReasonAreToldToEveryRank) {
  if (const char* role = std::getenv(kRole)) be_a_rank(role);
  std::string base = ::testing::TempDir() + "trireme-no-hang-XXXXXX";
  ASSERT_NE(mkdtemp(base.data()), nullptr);
  const auto rt = runtime::make_real_runtime({});
  const auto dir_of = [&](int number) { return fmt::format("{}/{}", base, number); };
  const auto some = [&](int first, int end) -> runtime::Task<void> {
    std::vector<runtime::Task<Status>> worlds;
    for (int number = first; number < end; ++number) {
      std::filesystem::create_directory(dir_of(number));
      worlds.push_back(run_case(*rt, GetParam(), number, dir_of(number)));
    }
    const Status status = co_await runtime::when_all(*rt, std::move(worlds));
    EXPECT_TRUE(status.ok()) << "watchdog: " << status.to_string();
  };
  for (int first = 0; first < kNumCases; first += kCasesAtOnce)
    rt->run(some(first, std::min(first + kCasesAtOnce, kNumCases)));
  for (int number = 0; number < kNumCases; ++number) check_case(GetParam(), number, dir_of(number));
  if (!HasFailure()) std::filesystem::remove_all(base);
}

INSTANTIATE_TEST_SUITE_P(Real, NoHangProcesses, ::testing::Values("shm", "tcp"));

}  // namespace
}  // namespace trireme::comm::testing
