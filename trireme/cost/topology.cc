#include "trireme/cost/topology.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/cost/graph_maker.h"
#include "trireme/cost/routes.h"

namespace trireme::cost {

Topology Topology::single_switch(int num_machines, MachineModel machine, LinkModel link) {
  Topology t;
  t.machines.assign(static_cast<std::size_t>(num_machines), machine);
  t.up = t.down = link;
  return t;
}

Status check_product(std::string_view topology, std::initializer_list<int> counts) {
  double product = 1;
  for (const int n : counts) product *= n;
  if (product <= kMostParts) return {};
  return error(Code::kInvalid, "[cost] topology {}: {:.3g} machines or cables, expected at most {:.3g}",
               topology, product, kMostParts);
}

Status check_at_least(std::string_view topology, std::string_view what, double got, double least) {
  if (got >= least) return {};
  return error(Code::kInvalid, "[cost] topology {}: {} is {}, expected at least {}", topology, what, got,
               least);
}

namespace {

Status check_link(const LinkModel& link, std::string_view what) {
  if (link.latency_ns < 0 || link.message_overhead_ns < 0 || !(link.bytes_per_second > 0) ||
      !std::isfinite(link.bytes_per_second))
    return error(
        Code::kInvalid,
        "[cost] {} has latency {} ns, overhead {} ns, {} bytes/s: expected none negative and a bandwidth "
        "above 0",
        what, link.latency_ns, link.message_overhead_ns, link.bytes_per_second);
  return {};
}

Status check_machine(const MachineModel& m, std::size_t index) {
  if (m.cores >= 1 && m.flops_per_second_per_core > 0 && m.bytes_per_second > 0 && m.speed > 0 &&
      m.op_overhead_ns >= 0)
    return {};
  return error(Code::kInvalid,
               "[cost] machine {} has {} cores, {} flop/s, {} bytes/s, speed {}: expected all above 0", index,
               m.cores, m.flops_per_second_per_core, m.bytes_per_second, m.speed);
}

Status check_ways(const Topology& t) {
  Routes routes(t);
  const int n = t.num_machines();
  // All pairs of a small cluster; of a large one every machine with the first and with its neighbour.
  constexpr int kSmall = 64;
  for (int a = 0; a < n; ++a) {
    std::vector<int> others{0, (a + 1) % n};
    for (int b = 0; b < n && n <= kSmall; ++b) others.push_back(b);
    for (const int b : others)
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
        if (from != to && routes.path(from, to).empty())
          return error(Code::kInvalid,
                       "[cost] topology {}: there is no way from machine {} to machine {}; add links or set "
                       "machines_forward",
                       t.name, from, to);
  }
  return {};
}

}  // namespace

Status check_topology(const Topology& t) {
  TR_RETURN_IF_ERROR(check_at_least(t.name, "the number of machines", t.num_machines(), 1));
  for (std::size_t i = 0; i < t.machines.size(); ++i) TR_RETURN_IF_ERROR(check_machine(t.machines[i], i));
  TR_RETURN_IF_ERROR(check_link(t.local, "the local link"));
  if (!t.group.empty() && t.group.size() != t.machines.size())
    return error(Code::kInvalid, "[cost] topology {} has {} groups, expected one per machine ({})", t.name,
                 t.group.size(), t.machines.size());
  if (t.links.empty()) {
    TR_RETURN_IF_ERROR(check_link(t.up, "the up link"));
    return check_link(t.down, "the down link");
  }
  for (std::size_t i = 0; i < t.links.size(); ++i) {
    const TopologyLink& l = t.links[i];
    const auto inside = [&](std::int32_t v) { return v >= 0 && v < t.num_vertices(); };
    if (!inside(l.from) || !inside(l.to) || l.from == l.to)
      return error(Code::kInvalid,
                   "[cost] link {} goes from {} to {}: expected two different vertices of 0..{}", i, l.from,
                   l.to, t.num_vertices() - 1);
    TR_RETURN_IF_ERROR(check_link(l.model, fmt::format("link {}", i)));
    if (!(l.jitter >= 0 && l.jitter <= 100))
      return error(Code::kInvalid, "[cost] link {} has jitter {}: expected 0..100", i, l.jitter);
  }
  return check_ways(t);
}

std::vector<std::int32_t> group_of(const Topology& t, std::span<const int> machine_of_rank) {
  std::vector<int> ranks_of(t.machines.size(), 0);
  bool shared = false;
  for (const int m : machine_of_rank) shared = ++ranks_of[static_cast<std::size_t>(m)] > 1 || shared;
  std::vector<std::int32_t> groups;
  for (const int m : machine_of_rank)
    groups.push_back(shared || t.group.empty() ? m : t.group[static_cast<std::size_t>(m)]);
  return groups;
}

namespace {

constexpr LinkModel kOneGigabit{
    .latency_ns = 50 * kMicro, .bytes_per_second = 125e6, .message_overhead_ns = 5 * kMicro};
constexpr LinkModel kTenGigabit{
    .latency_ns = 25 * kMicro, .bytes_per_second = 1.25e9, .message_overhead_ns = 2 * kMicro};

Result<Topology> named(const char* name, Result<Topology> made) {
  if (made.ok()) made->name = name;
  return made;
}

Result<Topology> make_rack(const char* name, int n, const MachineModel& machine, const LinkModel& link) {
  TR_RETURN_IF_ERROR(check_at_least(name, "the number of machines", n, 1));
  return named(name, Topology::single_switch(n, machine, link));
}

// 4 x FDR: 14.0625 Gbit/s per lane, 64b/66b coding (InfiniBand Architecture Specification, release 1.3).
Result<Topology> make_fdr(int n, const MachineModel& machine) {
  const LinkModel link{.latency_ns = 1 * kMicro, .bytes_per_second = 6.8e9, .message_overhead_ns = 300};
  return named(
      "fdr-infiniband",
      fat_tree({.num_machines = n, .switch_latency_ns = 200, .spread = Spread::kDestination}, machine, link));
}
Result<Topology> make_1gbe(int n, const MachineModel& m) { return make_rack("1gbe-rack", n, m, kOneGigabit); }
Result<Topology> make_10gbe(int n, const MachineModel& m) {
  return make_rack("10gbe-rack", n, m, kTenGigabit);
}

Result<Topology> make_cloud(int n, const MachineModel& machine) {
  LinkModel link = kTenGigabit;
  link.latency_ns = 40 * kMicro;
  Result<Topology> t =
      two_level({.num_machines = n, .per_rack = 16, .oversubscription = 4, .uplink_latency_ns = 20 * kMicro},
                machine, link);
  if (t.ok())
    for (TopologyLink& l : t->links) l.jitter = 0.5;
  return named("cloud", std::move(t));
}

// The first `n` devices of a host that has `t`: switches and the links between them stay.
Result<Topology> at_most(const char* name, int n, Topology t) {
  const int all = t.num_machines();
  if (n < 1 || n > all)
    return error(Code::kInvalid,
                 "[cost] preset {} has {} devices: got {}, expected 1 to {}; use another topology or at most "
                 "{} ranks",
                 name, all, n, all, all);
  const auto is_gone = [&](std::int32_t v) { return v >= n && v < all; };
  std::erase_if(t.links, [&](const TopologyLink& l) { return is_gone(l.from) || is_gone(l.to); });
  for (TopologyLink& l : t.links)
    for (std::int32_t* v : {&l.from, &l.to})
      if (*v >= all) *v -= all - n;
  t.machines.resize(static_cast<std::size_t>(n));
  if (!t.group.empty()) t.group.resize(static_cast<std::size_t>(n));
  return named(name, std::move(t));
}
Result<Topology> make_dgx1(int n, const MachineModel& machine) {
  TR_ASSIGN_OR_RETURN(Topology t, dgx1({}, machine));
  return at_most("dgx1", n, std::move(t));
}
Result<Topology> make_pcie(int n, const MachineModel& machine) {
  TR_ASSIGN_OR_RETURN(Topology t, pcie_tree({}, machine));
  return at_most("pcie", n, std::move(t));
}

constexpr std::array<Preset, 6> kPresets{{
    {"fdr-infiniband", "fat tree of 4x FDR InfiniBand: 6.8 GB/s, 1 us", make_fdr},
    {"1gbe-rack", "one switch of Gigabit Ethernet: 125 MB/s, 50 us", make_1gbe},
    {"10gbe-rack", "one switch of 10 Gigabit Ethernet: 1.25 GB/s, 25 us", make_10gbe},
    {"cloud", "racks of 16 at 10 Gbit/s, uplinks 4:1, 40 us within and 80 us between racks, jitter 50 %",
     make_cloud},
    {"dgx1", "eight devices, hybrid cube mesh of 20 GB/s links, PCIe for the other pairs", make_dgx1},
    {"pcie", "eight devices below four PCIe switches below two sockets: 12 GB/s", make_pcie},
}};

}  // namespace

std::span<const Preset> topology_presets() { return kPresets; }

Result<const Preset*> find_preset(std::string_view name) {
  std::string known;
  for (const Preset& p : kPresets) {
    if (p.name == name) return &p;
    known += known.empty() ? p.name : fmt::format(", {}", p.name);
  }
  return error(Code::kNotFound, "[cost] no preset '{}'; there are: {}", name, known);
}

}  // namespace trireme::cost
