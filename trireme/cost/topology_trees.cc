// Topologies made of levels of switches.
#include <cmath>

#include "trireme/cost/graph_maker.h"

namespace trireme::cost {

Result<Topology> two_level(const TwoLevelSpec& spec, const MachineModel& machine, const LinkModel& link) {
  const char* name = "two-level";
  TR_RETURN_IF_ERROR(check_at_least(name, "machines", spec.num_machines, 1));
  TR_RETURN_IF_ERROR(check_at_least(name, "per_rack", spec.per_rack, 1));
  if (!(spec.oversubscription > 0))
    return error(Code::kInvalid, "[cost] topology two-level: oversubscription is {}, expected above 0",
                 spec.oversubscription);
  GraphMaker g(name, spec.num_machines, machine);
  const int num_racks = (spec.num_machines + spec.per_rack - 1) / spec.per_rack;
  const LinkModel uplink =
      switch_link(spec.uplink_latency_ns, link.bytes_per_second * spec.per_rack / spec.oversubscription);
  std::int32_t rack = -1;
  for (int m = 0; m < spec.num_machines; ++m) {
    if (m % spec.per_rack == 0) rack = g.add_switch(0);
    g.attach(m, rack, link);
    g.put_in_group(m, m / spec.per_rack);
  }
  if (num_racks > 1) {
    const std::int32_t core = g.add_switch(1);
    for (int r = 0; r < num_racks; ++r) g.cable(spec.num_machines + r, core, uplink);
  }
  return g.take();
}

Result<Topology> fat_tree(const FatTreeSpec& spec, const MachineModel& machine, const LinkModel& link) {
  const char* name = "fat-tree";
  TR_RETURN_IF_ERROR(check_at_least(name, "machines", spec.num_machines, 1));
  const auto capacity = [](std::int64_t k) { return k * k * k / 4; };
  int k = spec.k;
  if (k == 0)
    for (k = 2; capacity(k) < spec.num_machines;) k += 2;
  if (k < 2 || k % 2 != 0 || k > 1024)
    return error(Code::kInvalid, "[cost] topology fat-tree: k is {}, expected an even number of 2..1024", k);
  if (capacity(k) < spec.num_machines)
    return error(Code::kInvalid, "[cost] topology fat-tree: k = {} holds {} machines, got {}; use a larger k",
                 k, capacity(k), spec.num_machines);
  const int half = k / 2, per_pod = half * half;
  const int num_pods = (spec.num_machines + per_pod - 1) / per_pod;
  GraphMaker g(name, spec.num_machines, machine);
  g.topology().spread = spec.spread;
  const LinkModel between = switch_link(spec.switch_latency_ns, link.bytes_per_second);
  std::vector<std::int32_t> cores;
  for (int i = 0; i < per_pod && num_pods > 1; ++i) cores.push_back(g.add_switch(2));
  for (int pod = 0; pod < num_pods; ++pod) {
    std::vector<std::int32_t> edges, aggregations;
    for (int i = 0; i < half; ++i) edges.push_back(g.add_switch(0));
    for (int i = 0; i < half; ++i) aggregations.push_back(g.add_switch(1));
    for (int i = 0; i < per_pod; ++i) {
      const int m = pod * per_pod + i;
      if (m >= spec.num_machines) break;
      g.attach(m, edges[static_cast<std::size_t>(i / half)], link);
      g.put_in_group(m, m / half);
    }
    for (const std::int32_t e : edges)
      for (const std::int32_t a : aggregations) g.cable(e, a, between);
    // Aggregation switch i of every pod has the core switches i half .. (i + 1) half - 1.
    for (std::size_t c = 0; c < cores.size(); ++c)
      g.cable(aggregations[c / static_cast<std::size_t>(half)], cores[c], between);
  }
  return g.take();
}

namespace {

// Adds switches and root complexes above the machines of `g`.
void add_pcie(GraphMaker& g, const PcieTreeSpec& spec) {
  const int per_socket = spec.switches_per_socket * spec.per_switch;
  const LinkModel lane = switch_link(spec.lane.latency_ns, spec.lane.bytes_per_second);
  std::vector<std::int32_t> roots;
  for (int s = 0; s < spec.num_sockets; ++s) {
    roots.push_back(g.add_switch(1));
    for (int i = 0; i < spec.switches_per_socket; ++i) {
      const std::int32_t below = g.add_switch(0);
      g.cable(below, roots.back(), lane);
      for (int d = 0; d < spec.per_switch; ++d)
        g.attach(s * per_socket + i * spec.per_switch + d, below, spec.lane);
    }
  }
  const LinkModel between = switch_link(spec.between.latency_ns, spec.between.bytes_per_second);
  for (std::size_t s = 0; s + 1 < roots.size(); ++s) g.cable(roots[s], roots[s + 1], between);
  if (roots.size() > 2) g.cable(roots.back(), roots.front(), between);
}

Status check_pcie(const PcieTreeSpec& spec) {
  TR_RETURN_IF_ERROR(check_at_least("pcie-tree", "sockets", spec.num_sockets, 1));
  TR_RETURN_IF_ERROR(check_at_least("pcie-tree", "switches_per_socket", spec.switches_per_socket, 1));
  return check_at_least("pcie-tree", "per_switch", spec.per_switch, 1);
}

}  // namespace

Result<Topology> pcie_tree(const PcieTreeSpec& spec, const MachineModel& machine) {
  TR_RETURN_IF_ERROR(check_pcie(spec));
  TR_RETURN_IF_ERROR(
      check_product("pcie-tree", {spec.num_sockets, spec.switches_per_socket, spec.per_switch}));
  const int n = spec.num_sockets * spec.switches_per_socket * spec.per_switch;
  GraphMaker g("pcie-tree", n, machine);
  add_pcie(g, spec);
  for (int m = 0; m < n; ++m) g.put_in_group(m, m / (spec.switches_per_socket * spec.per_switch));
  return g.take();
}

Result<Topology> dgx1(const Dgx1Spec& spec, const MachineModel& machine) {
  constexpr int kDevices = 8, kQuad = 4;
  TR_RETURN_IF_ERROR(check_pcie(spec.pcie));
  TR_RETURN_IF_ERROR(
      check_product("dgx1", {spec.pcie.num_sockets, spec.pcie.switches_per_socket, spec.pcie.per_switch}));
  if (spec.pcie.num_sockets * spec.pcie.switches_per_socket * spec.pcie.per_switch != kDevices)
    return error(Code::kInvalid, "[cost] topology dgx1: the PCIe tree has {} devices, expected 8",
                 spec.pcie.num_sockets * spec.pcie.switches_per_socket * spec.pcie.per_switch);
  GraphMaker g("dgx1", kDevices, machine);
  for (int a = 0; a < kDevices; ++a) {
    g.put_in_group(a, a / kQuad);
    for (int b = a + 1; b < kDevices; ++b)
      if (a / kQuad == b / kQuad || b == a + kQuad) g.cable(a, b, spec.nvlink);
  }
  add_pcie(g, spec.pcie);
  return g.take();
}

}  // namespace trireme::cost
