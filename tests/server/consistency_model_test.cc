// Every interleaving of three workers with four clocks each, by exhaustive search over what a policy can be
// told: a worker reads for its next clock (when it may), pushes it, or is gone. States that no event can tell
// apart are visited once.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

#include "trireme/server/consistency/consistency.h"

namespace trireme::server {
namespace {

constexpr int kWorkers = 3;
constexpr std::int64_t kClocks = 4;

enum class Act : std::uint8_t { kRead, kPush, kGone };
struct Event {
  Act act;
  int worker;
};
using History = std::vector<Event>;

// A policy and what the test knows of it.
struct Model {
  std::unique_ptr<Consistency> policy;
  std::array<std::int64_t, kWorkers> clock{};  // the next one
  std::array<bool, kWorkers> has_read{}, gone{};
  std::vector<PushId> held;                  // as they came
  std::vector<std::vector<PushId>> updates;  // as they were made
  std::set<PushId> dropped;

  bool is_busy(int w) const { return !gone[w_(w)] && clock[w_(w)] < kClocks; }
  bool is_applied(PushId push) const {
    return std::any_of(updates.begin(), updates.end(),
                       [&](const auto& u) { return std::find(u.begin(), u.end(), push) != u.end(); });
  }
  static std::size_t w_(int w) { return static_cast<std::size_t>(w); }
};

Model make_model(const char* name, const ConsistencyOptions& options) {
  Model m;
  m.policy = (*find_consistency(name))->make(options);
  return m;
}

void take_ready(Model& m) {
  for (auto batch = m.policy->ready(); !batch.empty(); batch = m.policy->ready()) {
    for (const PushId& p : batch) {
      ASSERT_EQ(std::erase(m.held, p), 1U) << "a push that was not held is released";
    }
    m.updates.push_back(batch);
  }
}

bool is_enabled(const Model& m, Event e) {
  const std::size_t w = Model::w_(e.worker);
  if (!m.is_busy(e.worker)) return false;
  if (e.act == Act::kGone) return true;
  if (e.act == Act::kPush) return m.has_read[w];
  return !m.has_read[w] && m.policy->may_read(e.worker, m.clock[w]);
}

void carry_out(Model& m, Event e) {
  const std::size_t w = Model::w_(e.worker);
  switch (e.act) {
    case Act::kRead:
      m.has_read[w] = true;
      // Who comes late goes on with the open clock.
      m.clock[w] = std::max(m.clock[w], std::min(m.policy->oldest_clock(), kClocks - 1));
      return;
    case Act::kPush: {
      const PushId push{e.worker, m.clock[w]};
      switch (m.policy->on_push(push)) {
        case OnPush::kApply:
          m.updates.push_back({push});
          break;
        case OnPush::kHold:
          m.held.push_back(push);
          break;
        case OnPush::kDrop:
          m.dropped.insert(push);
          break;
      }
      ++m.clock[w];
      m.has_read[w] = false;
      break;
    }
    case Act::kGone:
      m.policy->on_gone(e.worker);
      m.gone[w] = true;
      break;
  }
  take_ready(m);
}

// All that later events can see of a state.
std::string fingerprint(const Model& m) {
  std::string text;
  for (std::size_t w = 0; w < kWorkers; ++w)
    text += fmt::format("{}{}{} ", m.clock[w], m.has_read[w] ? "r" : "", m.gone[w] ? "g" : "");
  for (const PushId& p : m.held) text += fmt::format("{}:{} ", p.worker, p.clock);
  text += fmt::format("o{} ", m.policy->oldest_clock());
  for (int w = 0; w < kWorkers; ++w)
    for (std::int64_t c = 0; c <= kClocks; ++c) text += m.policy->may_read(w, c) ? '1' : '0';
  return text;
}

struct Search {
  const char* policy = "bsp";
  ConsistencyOptions options;
  std::function<void(const Model& before, Event e)> at_event = [](const Model&, Event) {};
  std::function<void(const Model&)> at_end = [](const Model&) {};  // nobody is busy
  std::size_t num_states = 0, num_reads_held_back = 0;
};

std::string describe(const Search& s, const History& history) {
  std::string text = s.policy;
  for (const Event& e : history)
    text += fmt::format(" {}{}",
                        e.act == Act::kRead   ? "read"
                        : e.act == Act::kPush ? "push"
                                              : "gone",
                        e.worker);
  return text;
}

Model replay(const Search& s, const History& history) {
  Model m = make_model(s.policy, s.options);
  for (const Event& e : history) carry_out(m, e);
  return m;
}

void explore(Search& s) {
  std::set<std::string> seen;
  std::vector<History> frontier{{}};
  while (!frontier.empty()) {
    const History history = std::move(frontier.back());
    frontier.pop_back();
    const Model here = replay(s, history);
    if (!seen.insert(fingerprint(here)).second) continue;
    bool someone_moves = false, someone_busy = false;
    for (int w = 0; w < kWorkers; ++w) {
      someone_busy |= here.is_busy(w);
      if (here.is_busy(w) && !here.has_read[Model::w_(w)] && !is_enabled(here, {Act::kRead, w}))
        ++s.num_reads_held_back;
      for (const Act act : {Act::kRead, Act::kPush, Act::kGone}) {
        const Event event{act, w};
        if (!is_enabled(here, event)) continue;
        someone_moves |= act != Act::kGone;
        s.at_event(here, event);
        History next = history;
        next.push_back(event);
        frontier.push_back(std::move(next));
        if (testing::Test::HasFailure()) {
          FAIL() << describe(s, frontier.back());
        }
      }
    }
    ASSERT_TRUE(someone_moves || !someone_busy) << "all wait: " << describe(s, history);
    if (!someone_busy) s.at_end(here);
    ASSERT_FALSE(testing::Test::HasFailure()) << describe(s, history);
  }
  s.num_states = seen.size();
}

// Pushes of workers that are still there, of clocks below `clock`, that are in no update.
int num_missing(const Model& m, std::int64_t clock) {
  int missing = 0;
  for (int w = 0; w < kWorkers; ++w)
    if (!m.gone[Model::w_(w)])
      for (std::int64_t c = 0; c < std::min(clock, kClocks); ++c) missing += m.is_applied({w, c}) ? 0 : 1;
  return missing;
}

bool has_update_of(const Model& m, std::int64_t clock) {
  return std::any_of(m.updates.begin(), m.updates.end(), [&](const auto& u) { return u[0].clock >= clock; });
}

std::size_t num_applied(const Model& m) {
  std::set<PushId> all;
  std::size_t count = 0;
  for (const auto& u : m.updates) {
    count += u.size();
    all.insert(u.begin(), u.end());
  }
  EXPECT_EQ(count, all.size()) << "a push was applied twice";
  return count;
}

void expect_all_applied(const Model& m) {
  std::size_t pushed = 0;
  for (const std::int64_t c : m.clock) pushed += static_cast<std::size_t>(c);
  EXPECT_EQ(num_applied(m), pushed);
  EXPECT_TRUE(m.dropped.empty());
  EXPECT_TRUE(m.held.empty());
}

TEST(ConsistencyModel, BspReadsExactlyBetweenTwoClocks) {
  Search s;
  s.options.num_workers = kWorkers;
  s.at_event = [](const Model& m, Event e) {
    if (e.act != Act::kRead) return;
    const std::int64_t c = m.clock[Model::w_(e.worker)];
    EXPECT_EQ(num_missing(m, c), 0);
    EXPECT_FALSE(has_update_of(m, c));
  };
  s.at_end = [](const Model& m) {
    expect_all_applied(m);
    for (const auto& u : m.updates) {
      EXPECT_TRUE(std::is_sorted(u.begin(), u.end()));
      for (const PushId& p : u) EXPECT_EQ(p.clock, u[0].clock);
    }
  };
  explore(s);
  EXPECT_GT(s.num_states, 500U);
  EXPECT_GT(s.num_reads_held_back, 0U);
}

TEST(ConsistencyModel, SspKeepsEveryBoundAndHoldsNobodyBackNeedlessly) {
  for (const std::int64_t bound : {0, 1, 2, 3}) {
    Search s;
    s.policy = "ssp";
    s.options.num_workers = kWorkers;
    s.options.staleness = bound;
    s.at_event = [&](const Model& m, Event e) {
      if (e.act == Act::kRead) {
        EXPECT_EQ(num_missing(m, m.clock[Model::w_(e.worker)] - bound), 0);
      }
      for (int w = 0; w < kWorkers; ++w) {
        const std::int64_t c = m.clock[Model::w_(w)];
        if (m.is_busy(w)) {
          EXPECT_EQ(m.policy->may_read(w, c), num_missing(m, c - bound) == 0);
        }
      }
    };
    s.at_end = expect_all_applied;
    explore(s);
    EXPECT_EQ(s.num_reads_held_back > 0, bound < 3) << bound;  // 4 clocks: nobody gets 4 ahead
  }
}

TEST(ConsistencyModel, SspWithoutStalenessIsBsp) {
  Search s;
  s.policy = "ssp";
  s.options.num_workers = kWorkers;
  std::size_t num_compared = 0;
  std::vector<std::vector<PushId>> of_ssp;
  s.at_end = [](const Model&) {};
  std::set<std::string> seen;
  // Both in step: the same events are possible and have the same outcome in every state.
  const std::function<void(History)> walk = [&](History history) {
    const Model ssp = replay(s, history);
    if (!seen.insert(fingerprint(ssp)).second) return;
    Search other = s;
    other.policy = "bsp";
    const Model bsp = replay(other, history);
    ASSERT_EQ(fingerprint(ssp), fingerprint(bsp)) << describe(s, history);
    ASSERT_EQ(ssp.updates, bsp.updates) << describe(s, history);
    ASSERT_EQ(ssp.dropped, bsp.dropped);
    ++num_compared;
    for (int w = 0; w < kWorkers; ++w)
      for (const Act act : {Act::kRead, Act::kPush, Act::kGone}) {
        const Event event{act, w};
        ASSERT_EQ(is_enabled(ssp, event), is_enabled(bsp, event)) << describe(s, history);
        if (!is_enabled(ssp, event)) continue;
        history.push_back(event);
        walk(history);
        history.pop_back();
        if (testing::Test::HasFailure()) return;
      }
  };
  walk({});
  EXPECT_GT(num_compared, 500U);
}

TEST(ConsistencyModel, AsyncAppliesEveryPushAtOnceAndHoldsNobodyBack) {
  Search s;
  s.policy = "async";
  s.options.num_workers = kWorkers;
  s.at_event = [](const Model& m, Event) {
    EXPECT_TRUE(m.held.empty());
    for (const auto& u : m.updates) EXPECT_EQ(u.size(), 1U);
  };
  s.at_end = expect_all_applied;
  explore(s);
  EXPECT_EQ(s.num_reads_held_back, 0U);
}

TEST(ConsistencyModel, SoftMakesOneUpdateOfAsManyPushesAsItGathers) {
  for (const int gather : {1, 2, 3}) {
    Search s;
    s.policy = "soft";
    s.options.num_workers = kWorkers;
    s.options.gather = gather;
    s.at_event = [&](const Model& m, Event) {
      EXPECT_LT(m.held.size(), static_cast<std::size_t>(gather));
      for (const auto& u : m.updates) EXPECT_EQ(u.size(), static_cast<std::size_t>(gather));
    };
    s.at_end = [&](const Model& m) {
      EXPECT_TRUE(m.dropped.empty());
      std::size_t pushed = 0;
      for (const std::int64_t c : m.clock) pushed += static_cast<std::size_t>(c);
      EXPECT_EQ(num_applied(m) + m.held.size(), pushed);
      if (m.gone[0] && m.gone[1] && m.gone[2]) {
        EXPECT_TRUE(m.held.empty());
      }
    };
    explore(s);
    EXPECT_EQ(s.num_reads_held_back, 0U);
  }
}

TEST(ConsistencyModel, LateNeverWaitsForMoreThanItsShareOfTheWorkers) {
  for (const double fraction : {0.3, 0.6, 2.0 / 3, 1.0}) {
    const auto needed = static_cast<std::size_t>(std::ceil(fraction * kWorkers - 1e-9));
    Search s;
    s.policy = "late";
    s.options.num_workers = kWorkers;
    s.options.fraction = fraction;
    bool some_dropped = false;
    s.at_event = [&](const Model& m, Event e) {
      // No clock is left open once enough are in.
      for (std::int64_t c = 0; c < kClocks; ++c)
        EXPECT_LT(std::count_if(m.held.begin(), m.held.end(), [&](const PushId& p) { return p.clock == c; }),
                  static_cast<std::ptrdiff_t>(needed));
      const bool all_there = std::none_of(m.gone.begin(), m.gone.end(), [](bool g) { return g; });
      for (const auto& u : m.updates) {
        EXPECT_LE(u.size(), needed);
        if (all_there) {
          EXPECT_EQ(u.size(), needed);
        }
      }
      // A read for clock c sees that clock's start: the earlier ones are closed, it is not.
      const std::int64_t c = m.clock[Model::w_(e.worker)];
      if (e.act == Act::kRead) {
        EXPECT_GE(m.policy->oldest_clock(), c);
      }
    };
    s.at_end = [&](const Model& m) {
      some_dropped |= !m.dropped.empty();
      num_applied(m);
      for (const PushId& p : m.dropped) EXPECT_FALSE(m.is_applied(p));
    };
    explore(s);
    EXPECT_EQ(some_dropped, fraction < 1) << fraction;
  }
}

TEST(ConsistencyModel, TheSamePushAgainIsAlwaysDropped) {
  for (const ConsistencyRow& row : consistency_table()) {
    Search s;
    s.policy = row.name;
    s.options.num_workers = kWorkers;
    s.options.staleness = 1;
    s.options.gather = 2;
    s.options.fraction = 0.6;
    std::size_t num_repeated = 0;
    s.at_event = [&](const Model& m, Event e) {
      // carry_out() made at most one push per clock: each of them once more, to the same policy.
      if (e.act != Act::kPush) return;
      for (int w = 0; w < kWorkers; ++w)
        for (std::int64_t c = 0; c < m.clock[Model::w_(w)]; ++c, ++num_repeated)
          ASSERT_EQ(m.policy->on_push({w, c}), OnPush::kDrop);
    };
    explore(s);
    EXPECT_GT(num_repeated, 100U);
  }
}

TEST(Consistency, WithTheLastWorkerEverythingHeldIsReady) {
  for (const char* name : {"bsp", "late", "ssp", "soft"}) {
    ConsistencyOptions options;
    options.num_workers = 3;
    options.gather = 3;
    const auto policy = (*find_consistency(name))->make(options);
    EXPECT_EQ(policy->on_push({1, 0}), OnPush::kHold);
    EXPECT_EQ(policy->on_push({1, 1}), OnPush::kHold);
    policy->on_gone(0);
    policy->on_gone(1);
    EXPECT_TRUE(policy->ready().empty()) << name;
    policy->on_gone(2);
    std::vector<PushId> released;
    for (auto batch = policy->ready(); !batch.empty(); batch = policy->ready())
      released.insert(released.end(), batch.begin(), batch.end());
    EXPECT_EQ(released, (std::vector<PushId>{{1, 0}, {1, 1}})) << name;
    EXPECT_TRUE(policy->may_read(0, 9)) << name;  // nothing more will come
  }
}

TEST(Consistency, WorkersThatMetGoOnFromOneClock) {
  ConsistencyOptions options;
  options.num_workers = 3;
  for (const char* name : {"bsp", "late", "ssp"}) {
    const auto policy = (*find_consistency(name))->make(options);
    EXPECT_EQ(policy->on_push({0, 0}), OnPush::kHold);
    for (int w = 0; w < 3; ++w) policy->on_gone(w);
    EXPECT_EQ(policy->ready(), (std::vector<PushId>{{0, 0}})) << name;
    policy->on_back(0, 7);
    policy->on_back(2, 7);
    EXPECT_EQ(policy->oldest_clock(), 7) << name;
    EXPECT_TRUE(policy->may_read(0, 7));
    EXPECT_FALSE(policy->may_read(0, 8));
    EXPECT_EQ(policy->on_push({2, 6}), OnPush::kDrop);
    EXPECT_EQ(policy->on_push({2, 7}), OnPush::kHold);
    EXPECT_TRUE(policy->ready().empty()) << name;
    EXPECT_EQ(policy->on_push({0, 7}), OnPush::kHold);
    EXPECT_EQ(policy->ready(), (std::vector<PushId>{{0, 7}, {2, 7}})) << name;  // nobody waits for 1
    EXPECT_TRUE(policy->may_read(2, 8));
  }
}

TEST(ConsistencyTable, NamesAreUniqueAndEveryRowHasADocAndAPaper) {
  for (const ConsistencyRow& row : consistency_table()) {
    EXPECT_EQ(*find_consistency(row.name), &row);
    EXPECT_GT(std::string_view(row.doc).size(), 20U);
    EXPECT_GT(std::string_view(row.paper).size(), 20U);
  }
  const Status status = find_consistency("asnyc").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("bsp, ssp, async, soft, late"), std::string::npos) << status.message();
}

TEST(ConsistencyTable, OptionsThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(check_consistency({}).ok());
  EXPECT_EQ(check_consistency({.num_workers = 0}).code(), Code::kInvalid);
  EXPECT_EQ(check_consistency({.staleness = -1}).code(), Code::kInvalid);
  EXPECT_EQ(check_consistency({.gather = 0}).code(), Code::kInvalid);
  EXPECT_EQ(check_consistency({.fraction = 0}).code(), Code::kInvalid);
  EXPECT_EQ(check_consistency({.fraction = 1.5}).code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::server
