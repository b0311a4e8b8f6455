// Prices against the virtual network: what is predicted is what the programs take there, run by the real
// code.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "tests/comm/ranks.h"
#include "trireme/net/factory.h"

namespace trireme::comm {
namespace {

constexpr TimeNs kStart = kSecond;  // everybody has met by then

// One allreduce of `count` phantom f32 by all ranks at the same moment, `per_machine` ranks to a machine.
class Rehearsal {
 public:
  Rehearsal(int world, const cost::CommModel& model, int per_machine)
      : world_(world), model_(model), per_machine_(per_machine) {
    for (int r = 0; r < world; ++r) machine_of_.push_back(r / per_machine);
  }

  TimeNs run(const std::string& algorithm, std::int64_t count) {
    runtime::WorldSpec spec;
    spec.phantom = true;
    spec.topology = cost::Topology::single_switch(machine_of_.back() + 1, model_.machine, model_.link);
    spec.topology.local = model_.local;
    const auto world = runtime::make_virtual_world(std::move(spec));
    std::vector<runtime::Runtime*> ranks;
    for (int r = 0; r < world_; ++r) ranks.push_back(&world->add_runtime(r / per_machine_, "rank"));
    TimeNs end = 0;
    for (int r = 0; r < world_; ++r) {
      runtime::Runtime& rt = *ranks[static_cast<std::size_t>(r)];
      world->start(rt, rank_main(rt, r, algorithm, count, end));
    }
    const runtime::WorldReport report = world->run(600 * kSecond);
    EXPECT_TRUE(report.finished) << algorithm << ": " << report.stuck;
    return end - kStart;
  }
  std::span<const std::int32_t> machine_of() const { return machine_of_; }

 private:
  runtime::Task<void> rank_main(runtime::Runtime& rt, int rank, std::string algorithm, std::int64_t count,
                                TimeNs& end) {
    net::ConnectOptions connect;
    connect.rank = rank;
    connect.world = world_;
    auto transport = co_await net::connect_transport(rt, "inproc", connect);
    EXPECT_TRUE(transport.ok());
    std::unique_ptr<net::Transport> inner = std::move(transport).value();
    GroupOptions options;
    options.machine_of = machine_of_;
    options.membership.deadline = 60 * kSecond;
    auto group = make_group(rt, std::move(inner), options);
    co_await rt.sleep_until(kStart);
    Call call;
    call.algorithm = algorithm;
    call.label = "bucket 0";
    const Tensor data = testing::phantom_of(count);
    const Status s = co_await (*group)->allreduce(call, data);
    EXPECT_TRUE(s.ok()) << s.to_string();
    end = std::max(end, rt.now());
    EXPECT_TRUE((co_await (*group)->leave()).ok());
  }

  int world_;
  cost::CommModel model_;
  int per_machine_;
  std::vector<std::int32_t> machine_of_;
};

// Errors of predictions by algorithm, and how much slower the choice is than the best.
struct Errors {
  std::map<std::string, std::vector<double>> by_algorithm;
  double worst_choice = 0;
  std::string worst_point;

  void print(const char* title) const {
    std::printf("  %s: predicted / simulated - 1\n", title);
    for (const auto& [name, errors] : by_algorithm) {
      double sum = 0, low = 0, high = 0;
      for (const double e : errors) sum += std::abs(e), low = std::min(low, e), high = std::max(high, e);
      std::printf("    %-13s mean %4.1f %%, from %+5.1f %% to %+5.1f %%\n", name.c_str(),
                  100 * sum / static_cast<double>(errors.size()), 100 * low, 100 * high);
    }
    std::printf("    the choice is at most %.1f %% slower than the best%s\n", 100 * worst_choice,
                worst_point.c_str());
  }
  double worst() const {
    double most = 0;
    for (const auto& [name, errors] : by_algorithm)
      for (const double e : errors) most = std::max(most, std::abs(e));
    return most;
  }
  double mean() const {
    double sum = 0, num = 0;
    for (const auto& [name, errors] : by_algorithm)
      for (const double e : errors) sum += std::abs(e), num += 1;
    return sum / num;
  }
};

void compare(Errors& errors, const cost::CommModel& model, int world, int per_machine, std::int64_t bytes) {
  Rehearsal rehearsal(world, model, per_machine);
  collective::ScheduleSpec spec;
  spec.world = world;
  spec.count = bytes / 4;
  if (per_machine > 1) spec.group_of.assign(rehearsal.machine_of().begin(), rehearsal.machine_of().end());
  const auto choice = collective::choose(spec, collective::algorithms_of(spec.kind), model);
  ASSERT_TRUE(choice.ok());
  TimeNs best = kForever, chosen = 0;
  for (const auto& c : choice->candidates) {
    if (!c.applicable.ok()) continue;
    const TimeNs took = rehearsal.run(c.algorithm->name, spec.count);
    errors.by_algorithm[c.algorithm->name].push_back(static_cast<double>(c.time) / static_cast<double>(took) -
                                                     1);
    best = std::min(best, took);
    if (c.algorithm == choice->algorithm) chosen = took;
  }
  const double slower = static_cast<double>(chosen) / static_cast<double>(best) - 1;
  if (slower <= errors.worst_choice) return;
  errors.worst_choice = slower;
  errors.worst_point = fmt::format(" ({} of {} ranks, {}, {} to a machine)", choice->algorithm->name, world,
                                   format_bytes(static_cast<std::uint64_t>(bytes)), per_machine);
}

TEST(Prices, AreWithinAQuarterOfTheVirtualNetworkAndChooseWell) {
  for (const double gbit : {1.0, 10.0}) {
    cost::CommModel model;
    model.link.bytes_per_second = gbit * 1e9 / 8;
    Errors errors;
    for (const int world : {2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 33})
      for (const std::int64_t bytes : {1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24})
        compare(errors, model, world, 1, bytes);
    errors.print(gbit > 1 ? "10 Gbit/s" : "1 Gbit/s");
    EXPECT_LT(errors.worst(), 0.25);
    EXPECT_LT(errors.mean(), 0.06);
    EXPECT_LT(errors.worst_choice, 0.15) << errors.worst_point;
  }
}

// Several ranks to a machine: coarser, but the choice is good.
TEST(Prices, KnowThatMachinesShareTheirLinks) {
  cost::CommModel model;
  model.machine.cores = 8;
  Errors errors;
  for (const int per_machine : {2, 4, 8})
    for (const int machines : {2, 3, 4})
      for (const std::int64_t bytes : {1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 24})
        compare(errors, model, per_machine * machines, per_machine, bytes);
  errors.print("machines of 2, 4 and 8 ranks");
  EXPECT_LT(errors.worst(), 0.6);
  EXPECT_LT(errors.mean(), 0.15);
  EXPECT_LT(errors.worst_choice, 0.25) << errors.worst_point;
}

}  // namespace
}  // namespace trireme::comm
