#include "tests/server/cluster.h"

#include <gtest/gtest.h>

#include "trireme/net/factory.h"

namespace trireme::server::testing {
namespace {

using runtime::Runtime;
using runtime::Task;

struct Play {
  Cluster& cluster;
  ServerLayout layout;
  int workers_left = 0;
};

// Whoever has the options alone knows what state() holds.
void expect_state_as_described(const ServerOptions& options, const Server& server) {
  const auto state = server.state();
  const auto entries = describe_state(options);
  ASSERT_TRUE(entries.ok()) << entries.status().to_string();
  ASSERT_EQ(entries->size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    const StateEntry& e = (*entries)[i];
    const std::string whole = e.state.empty() ? e.part : e.part + "/" + e.state;
    const std::string cut = fmt::format("[{},{})/{}", e.begin, e.begin + e.count, whole);
    EXPECT_TRUE(state[i].first == whole || state[i].first == cut) << state[i].first << " is not " << cut;
    EXPECT_EQ(state[i].second.type(), e.type) << whole;
  }
}

Result<std::unique_ptr<Server>> server_of(Play& play, Runtime& rt, comm::Group& group, int server) {
  ServerOptions options;
  options.server = server;
  options.layout = play.layout;
  options.keys = play.cluster.keys;
  options.consistency = play.cluster.consistency;
  options.clocks = play.cluster.clocks;
  options.clocks.num_workers = play.cluster.workers;
  options.make_update = play.cluster.make_update;
  options.divide_by_staleness = play.cluster.divide_by_staleness;
  options.link = play.cluster.link;
  options.make_product = play.cluster.make_product;
  auto made = make_server(rt, group.mailbox(), options);
  if (made.ok()) expect_state_as_described(options, **made);
  return made;
}

Task<void> work(Play& play, Runtime& rt, comm::Group& group, int rank) {
  Cluster& c = play.cluster;
  std::vector<int> ranks;
  for (int s = 0; s < c.servers; ++s) ranks.push_back(c.rank_of(s));
  const auto client = make_client(rt, group.mailbox(), ranks, play.layout, c.keys, c.link);
  const Worker worker{rt, group, *client, rank};
  c.worker_status[static_cast<std::size_t>(rank)] = co_await c.work(worker);
  --play.workers_left;
}

Task<void> rank_main(Play& play, Runtime& rt, int rank, const bool* others_gone) {
  Cluster& c = play.cluster;
  net::ConnectOptions connect;
  connect.rank = rank;
  connect.world = c.world();
  auto transport = co_await net::connect_transport(rt, "inproc", connect);
  EXPECT_TRUE(transport.ok()) << transport.status().to_string();
  comm::GroupOptions options;
  auto group = comm::make_group(rt, std::move(*transport), options);
  EXPECT_TRUE(group.ok());
  if (c.expendable) {
    std::vector<int> ranks;
    for (int w = 1; w < c.workers; ++w) ranks.push_back(w);
    const Status set = (*group)->set_expendable(ranks);
    EXPECT_TRUE(set.ok()) << set.to_string();
  }
  std::vector<std::pair<std::size_t, std::unique_ptr<Server>>> own;
  for (int s = 0; s < c.servers; ++s) {
    if (c.rank_of(s) != rank) continue;
    auto made = server_of(play, rt, **group, s);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    own.emplace_back(static_cast<std::size_t>(s), std::move(*made));
  }
  if (rank < c.workers) co_await work(play, rt, **group, rank);
  while (play.workers_left > 0 && !*others_gone && (*group)->verdict().ok()) co_await rt.sleep_for(kMilli);
  for (const auto& [s, server] : own) {
    c.server_status[s] = co_await server->settle();
    if (!(*group)->verdict().ok()) c.server_status[s] = (*group)->verdict();
    c.stats[s] = server->stats();
    if (rt.is_phantom()) continue;
    for (const auto& [name, tensor] : server->state())
      if (tensor.dtype() == DType::kF32) c.state[name] = values_of(tensor);
  }
  const Status left = co_await (*group)->leave();
  EXPECT_EQ(left.to_string(), (*group)->verdict().to_string());
  own.clear();
}

}  // namespace

ServerStats Cluster::total() const {
  ServerStats sum;
  for (const ServerStats& s : stats) {
    sum.pushes += s.pushes, sum.pulls += s.pulls, sum.updates += s.updates;
    sum.dropped += s.dropped, sum.repeated += s.repeated, sum.pulls_waited += s.pulls_waited;
    sum.coded_pushes += s.coded_pushes, sum.coded_pulls += s.coded_pulls;
    sum.factor_pushes += s.factor_pushes;
    for (const auto& [staleness, count] : s.staleness) sum.staleness[staleness] += count;
  }
  return sum;
}

void run(Cluster& c) {
  Play play{c, *make_layout(c.keys, c.servers, c.small_elems), c.workers};
  const Status not_ended = error(Code::kCancelled, "not ended");
  c.worker_status.assign(static_cast<std::size_t>(c.workers), not_ended);
  c.server_status.assign(static_cast<std::size_t>(c.servers), not_ended);
  c.stats.assign(static_cast<std::size_t>(c.servers), {});
  c.state.clear();
  c.spec.topology = cost::Topology::single_switch(c.world(), {}, {});
  const auto world = runtime::make_virtual_world(c.spec);
  std::vector<Runtime*> ranks;
  bool others_gone = false;
  for (int r = 0; r < c.world(); ++r) ranks.push_back(&world->add_runtime(r, "rank " + std::to_string(r)));
  for (int r = 0; r < c.world(); ++r) {
    Runtime& rt = *ranks[static_cast<std::size_t>(r)];
    world->start(rt, rank_main(play, rt, r, &others_gone));
  }
  // Lost workers never count themselves out.
  for (TimeNs limit = kSecond; limit <= 100 * kSecond; limit += kSecond) {
    c.report = world->run(limit);
    if (c.report.finished) break;
    int dead = 0;
    for (int w = 0; w < c.workers; ++w) dead += world->is_dead(*ranks[static_cast<std::size_t>(w)]) ? 1 : 0;
    others_gone = play.workers_left <= dead;
  }
  EXPECT_TRUE(c.report.finished) << c.report.stuck;
}

void run_well(Cluster& c) {
  run(c);
  for (const Status& s : c.worker_status) EXPECT_TRUE(s.ok()) << s.to_string();
  for (const Status& s : c.server_status) EXPECT_TRUE(s.ok()) << s.to_string();
}

Tensor tensor_of(const Vector& values) {
  return Tensor::from<float>(values, {static_cast<std::int64_t>(values.size())});
}

Vector values_of(const Tensor& t) {
  const auto values = t.values<float>();
  return {values.begin(), values.end()};
}

Key key_of(std::string name, std::int64_t elems) { return {std::move(name), elems, {}}; }

}  // namespace trireme::server::testing
