#include "trireme/start/simulate_collective.h"

#include <algorithm>
#include <memory>

#include "trireme/comm/group.h"
#include "trireme/cost/routes.h"
#include "trireme/net/factory.h"
#include "trireme/runtime/virtual/world.h"
#include "trireme/tensor/tensor.h"

namespace trireme::start {
namespace {

using collective::Kind;
using runtime::Runtime;
using runtime::Task;

// The call begins here, when all ranks have long met; the times of faults are shifted by it.
constexpr TimeNs kStart = 1 * kSecond;
// A deadline that never comes.
constexpr TimeNs kNever = 1'000'000 * kSecond;

struct RankState {
  comm::Group* group = nullptr;  // owned by a task of its Runtime
  Status status;
  bool ended = false;
  std::uint64_t bytes_before = 0;
};

std::int64_t elems_of(const CollectiveOptions& o) {
  const auto elems = static_cast<std::int64_t>((o.bytes + 3) / 4);
  if (o.kind != Kind::kGather && o.kind != Kind::kScatter) return elems;
  return (elems + o.ranks - 1) / o.ranks * o.ranks;
}

std::vector<int> machines_of(const CollectiveOptions& o) {
  std::vector<int> machines;
  for (int r = 0; r < o.ranks; ++r) machines.push_back(r / o.ranks_per_machine);
  return machines;
}

std::vector<collective::Edge> ring_edges(const CollectiveOptions& o) {
  std::vector<collective::Edge> edges;
  for (int r = 0; r < o.ranks && o.ranks > 1; ++r)
    for (const int to : {(r + 1) % o.ranks, (r + o.ranks - 1) % o.ranks})
      if (o.ranks > 2 || edges.size() < static_cast<std::size_t>(r + 1))
        edges.push_back({r, to, elems_of(o)});
  return edges;
}

Tensor phantom(std::int64_t count) {
  const TensorType type{DType::kF32, Shape{count}};
  return Tensor(Buffer::phantom(cpu_device(), type.num_bytes()), type);
}

// Keeps the group until the world goes: closing a thousand endpoints would be a million events.
Task<void> keep(Runtime& rt, std::unique_ptr<comm::Group> group) {
  co_await rt.sleep_until(kForever);
  group.reset();
}

Task<void> connect(Runtime& rt, int rank, const CollectiveOptions& o, const std::vector<std::int32_t>& groups,
                   RankState& state) {
  net::ConnectOptions options;
  options.rank = rank;
  options.world = o.ranks;
  options.deadline = o.time_limit;
  auto transport = co_await net::connect_transport(rt, "inproc", options);
  state.status = transport.status();
  if (!transport.ok()) co_return;
  comm::GroupOptions group_options;
  group_options.machine_of = groups;
  group_options.membership.deadline = o.deadline > 0 ? o.deadline : kNever;
  group_options.membership.heartbeat =
      o.deadline > 0 ? std::min(group_options.membership.heartbeat, std::max<TimeNs>(1, o.deadline / 10))
                     : kNever / 10;
  group_options.membership.arrival =
      std::max(group_options.membership.arrival, group_options.membership.deadline);
  auto group = comm::make_group(rt, std::move(*transport), std::move(group_options));
  state.status = group.status();
  if (!group.ok()) co_return;
  state.group = group->get();
  rt.spawn(keep(rt, std::move(*group)));
}

Task<Status> call(comm::Group& group, comm::Call c, const CollectiveOptions& o) {
  const std::int64_t n = elems_of(o), block = n / o.ranks;
  const bool is_root = group.rank() == o.root;
  switch (o.kind) {
    case Kind::kAllreduce:
      return group.allreduce(std::move(c), phantom(n));
    case Kind::kReduce:
      return group.reduce(std::move(c), phantom(n));
    case Kind::kBroadcast:
      return group.broadcast(std::move(c), phantom(n));
    case Kind::kAllgather:
      return group.allgather(std::move(c), {}, phantom(n));
    case Kind::kReduceScatter:
      return group.reduce_scatter(std::move(c), phantom(n), {});
    case Kind::kBarrier:
      return group.barrier(std::move(c));
    case Kind::kGather:
      return group.gather(std::move(c), is_root ? Tensor() : phantom(block), is_root ? phantom(n) : Tensor());
    case Kind::kScatter:
      return group.scatter(std::move(c), is_root ? phantom(n) : Tensor(),
                           is_root ? Tensor() : phantom(block));
    case Kind::kAllToAll:
      return group.all_to_all(std::move(c), phantom(n), phantom(n));
    case Kind::kNeighbours: {
      c.edges = ring_edges(o);
      const std::size_t degree = o.ranks > 2 ? 2 : o.ranks - 1;
      const std::vector<Tensor> blocks(degree, phantom(n));
      return group.neighbours(std::move(c), blocks, blocks);
    }
  }
  TR_CHECK(false, "no call for kind {}", static_cast<int>(o.kind));
}

Task<void> run_rank(Runtime& rt, const CollectiveOptions& o, const char* algorithm, RankState& state) {
  co_await rt.sleep_until(kStart);
  comm::Call c;
  c.algorithm = algorithm;
  c.root = o.root;
  state.status = co_await call(*state.group, std::move(c), o);
  state.ended = true;
}

collective::ScheduleSpec spec_of(const CollectiveOptions& o) {
  collective::ScheduleSpec spec;
  spec.kind = o.kind;
  spec.world = o.ranks;
  spec.root = o.root;
  spec.count = o.kind == Kind::kBarrier ? 0 : elems_of(o);
  if (o.kind == Kind::kNeighbours) {
    spec.edges = ring_edges(o);
    spec.count *= static_cast<std::int64_t>(spec.edges.size());
  }
  return spec;
}

// Ranks that share machines: the machine's way to the others, and its local link. Otherwise flat algorithms
// see the typical way between two machines; one that works by groups sees a group's way, which its machines
// share, and the ways inside.
TimeNs predict(const CollectiveOptions& o, const collective::Algorithm& algorithm,
               const std::vector<std::int32_t>& groups) {
  const cost::TopologySummary summary = cost::summarise(o.world.topology);
  cost::CommModel model(summary.typical, o.world.topology.machines.front());
  collective::ScheduleSpec spec = spec_of(o);
  const bool needs_groups = !algorithm.applicable(spec).ok();
  if (o.ranks_per_machine > 1) {
    spec.group_of = groups;
    model.local = o.world.topology.local;
  } else if (needs_groups) {
    spec.group_of = groups;
    const auto num_groups = 1 + *std::max_element(groups.begin(), groups.end());
    const double share = static_cast<double>(o.ranks) / num_groups;
    const auto shared = [&](cost::LinkModel link, double narrowing) {
      link.bytes_per_second *= share / narrowing;
      link.message_overhead_ns = static_cast<TimeNs>(static_cast<double>(link.message_overhead_ns) / share);
      return link;
    };
    model.link = shared(summary.far, summary.oversubscription);
    model.local = shared(summary.near, 1);
  }
  return collective::price_time(algorithm.price(spec), model);
}

runtime::WorldSpec shifted(runtime::WorldSpec world) {
  world.phantom = true;
  for (auto& f : world.faults)
    if (f.site.empty()) f.at += kStart;
  for (auto& f : world.network.faults) f.at += kStart;
  for (auto& f : world.disk_faults) f.at += kStart;
  return world;
}

// The result is what the first rank that lived to tell says, or else that somebody did not.
void collect(const std::vector<RankState>& ranks, const runtime::WorldReport& report, CollectiveRow& row) {
  bool told = false;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankState& s = ranks[r];
    if (s.ended && s.status.ok()) continue;
    ++row.num_failed;
    if (!told && !s.status.ok()) {
      row.result = s.status;
      told = true;
    } else if (row.result.ok()) {
      row.result = error(Code::kPeerLost, "[simulate] rank {} was killed or never ended{}{}", r,
                         report.stuck.empty() ? "" : ": ", report.stuck.substr(0, 200));
    }
  }
}

}  // namespace

Status check_collective_options(const CollectiveOptions& o) {
  const int num_machines = o.world.topology.num_machines();
  if (o.ranks < 1 || o.ranks_per_machine < 1)
    return error(Code::kInvalid, "[simulate] got {} ranks, {} per machine: expected at least 1", o.ranks,
                 o.ranks_per_machine);
  if ((o.ranks + o.ranks_per_machine - 1) / o.ranks_per_machine > num_machines)
    return error(Code::kInvalid,
                 "[simulate] {} ranks, {} per machine, need more than the {} machines of the topology",
                 o.ranks, o.ranks_per_machine, num_machines);
  if (o.root < 0 || o.root >= o.ranks)
    return error(Code::kInvalid, "[simulate] the root is rank {}: expected 0..{}", o.root, o.ranks - 1);
  for (const auto& f : o.world.faults)
    if (f.runtime >= o.ranks)
      return error(Code::kInvalid, "[simulate] a fault strikes rank {}: expected 0..{}", f.runtime,
                   o.ranks - 1);
  return cost::check_topology(o.world.topology);
}

CollectiveRow simulate_collective(const CollectiveOptions& o, const collective::Algorithm& algorithm) {
  CollectiveRow row;
  row.algorithm = algorithm.name;
  const std::vector<std::int32_t> groups = cost::group_of(o.world.topology, machines_of(o));
  collective::ScheduleSpec spec = spec_of(o);
  spec.group_of = groups;
  row.applicable = algorithm.applicable(spec);
  if (!row.applicable.ok()) return row;
  row.rounds = algorithm.price(spec).rounds;
  row.predicted = predict(o, algorithm, groups);

  std::vector<RankState> states(static_cast<std::size_t>(o.ranks));
  const auto world = runtime::make_virtual_world(shifted(o.world));
  std::vector<Runtime*> ranks;
  for (int r = 0; r < o.ranks; ++r)
    ranks.push_back(&world->add_runtime(r / o.ranks_per_machine, fmt::format("rank {}", r)));
  for (int r = 0; r < o.ranks; ++r) {
    const auto at = static_cast<std::size_t>(r);
    world->start(*ranks[at], connect(*ranks[at], r, o, groups, states[at]));
  }
  const runtime::WorldReport met = world->run(o.time_limit);
  bool all_met = met.finished;
  for (const RankState& s : states) all_met = all_met && s.group != nullptr;
  if (!all_met) {
    collect(states, met, row);
    return row;
  }
  for (std::size_t r = 0; r < states.size(); ++r) {
    states[r].bytes_before = states[r].group->stats().bytes_sent;
    world->start(*ranks[r], run_rank(*ranks[r], o, algorithm.name, states[r]));
  }
  const runtime::WorldReport done = world->run(std::max(met.end_time, kStart) + o.time_limit);
  row.time = done.end_time - std::max(met.end_time, kStart);
  row.messages = done.num_messages - met.num_messages;
  row.events = done.num_events - met.num_events;
  row.trace_hash = done.trace_hash;
  for (const RankState& s : states)
    row.bytes_per_rank = std::max(row.bytes_per_rank, s.group->stats().bytes_sent - s.bytes_before);
  collect(states, done, row);
  return row;
}

}  // namespace trireme::start
