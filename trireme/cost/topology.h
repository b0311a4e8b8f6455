// Topology: the machines of a cluster and the links between them, as a value.
//
// Vertices 0 .. machines.size()-1 are the machines, the ones after them switches. A link is one direction
// between two vertices; a cable is two of them. What a message pays on its way: the overhead of its first
// link once, and on every link a turn (FIFO), bytes / bandwidth of occupancy, and the latency. routes.h finds
// the way, docs/virtual_cluster.md is the model of time.
//
// Without `links` all machines hang on one switch by an `up` and a `down` link each, and the latency of a
// message is the up link's alone. The makers below keep that: the latency of a machine's own cable is on its
// way up only, so machines below one switch see the same times in every topology made of switches.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/cost/cost.h"

namespace trireme::cost {

struct TopologyLink {
  std::int32_t from = 0, to = 0;
  LinkModel model;
  double jitter =
      0;  // a latency becomes latency * (1 + jitter * u), u drawn from [0, 1) by the virtual world
};

// Which of several next links on shortest ways a message takes; always the same for a pair of machines.
enum class Spread : std::uint8_t {
  kFirst,        // the first in order of `links`: dimension order on a torus
  kHash,         // by a hash of (vertex, source, destination): equal-cost multi-path of Ethernet switches
  kDestination,  // by the digits of the destination: the d-mod-k routes of InfiniBand fat trees
};

struct Topology {
  std::string name = "single-switch";
  std::vector<MachineModel> machines;
  LinkModel up, down;  // of every machine, when there are no `links`
  double jitter = 0;   // of the up links then
  LinkModel local{.latency_ns = 500, .bytes_per_second = 10e9, .message_overhead_ns = 200};
  std::vector<TopologyLink> links;
  std::vector<std::int32_t> switch_level;  // one per switch: 0 has machines below it (kDestination uses it)
  std::vector<std::int32_t> group;         // of each machine: rack, edge switch, socket; none: one each
  Spread spread = Spread::kFirst;
  bool machines_forward = false;  // messages may pass through machines (torus)

  int num_machines() const { return static_cast<int>(machines.size()); }
  int num_switches() const { return links.empty() ? 1 : static_cast<int>(switch_level.size()); }
  int num_vertices() const { return num_machines() + num_switches(); }

  static Topology single_switch(int num_machines, MachineModel machine, LinkModel link);
};

// Racks of machines behind a switch each, the switches below one core switch. An uplink has `per_rack` times
// the machine link's bandwidth divided by `oversubscription`. The last rack may be short.
struct TwoLevelSpec {
  int num_machines = 2, per_rack = 2;
  double oversubscription = 1;
  TimeNs uplink_latency_ns = 5 * kMicro;
};
Result<Topology> two_level(const TwoLevelSpec& spec, const MachineModel& machine, const LinkModel& link);

// The k-ary fat tree (Al-Fares, Loukissas, Vahdat, SIGCOMM 2008): pods of k/2 edge and k/2 aggregation
// switches, k^2/4 core switches, all links alike, up to k^3/4 machines. k = 0: the smallest that fits. Pods
// without machines are left out.
struct FatTreeSpec {
  int num_machines = 2;
  int k = 0;
  TimeNs switch_latency_ns = 1 * kMicro;  // of every link between switches
  Spread spread = Spread::kHash;
};
Result<Topology> fat_tree(const FatTreeSpec& spec, const MachineModel& machine, const LinkModel& link);

// Devices of one host as machines: `per_switch` below each PCIe switch, `switches_per_socket` of these below
// the root complex of each socket, root complexes joined in a ring (two: one cable) by `between`.
struct PcieTreeSpec {
  int num_sockets = 2, switches_per_socket = 2, per_switch = 2;
  LinkModel lane{.latency_ns = 700, .bytes_per_second = 12e9, .message_overhead_ns = 2 * kMicro};
  LinkModel between{.latency_ns = 500, .bytes_per_second = 16e9, .message_overhead_ns = 0};
};
Result<Topology> pcie_tree(const PcieTreeSpec& spec, const MachineModel& machine);

// Eight devices in the hybrid cube mesh of the DGX-1 (NVIDIA, "Tesla P100" whitepaper, 2016): two quads,
// fully connected inside, device i of one joined with device i of the other, four links per device; pairs
// without a link go through the PCIe tree, since devices do not forward.
struct Dgx1Spec {
  LinkModel nvlink{.latency_ns = 700, .bytes_per_second = 20e9, .message_overhead_ns = 2 * kMicro};
  PcieTreeSpec pcie;
};
Result<Topology> dgx1(const Dgx1Spec& spec, const MachineModel& machine);

// Machines on a grid that wraps round in every dimension, linked with their neighbours; they forward, in
// dimension order. `link.latency_ns` is paid per hop.
Result<Topology> torus(std::span<const int> sizes, const MachineModel& machine, const LinkModel& link);

// Groups of `routers` fully joined routers with `per_router` machines each; every pair of groups is joined by
// one cable or, with routers to spare, several (Kim, Dally, Scott, Abts, ISCA 2008). Shortest ways.
struct DragonflySpec {
  int num_groups = 3, routers = 2, per_router = 2;
  TimeNs local_latency_ns = 1 * kMicro, global_latency_ns = 2 * kMicro;
};
Result<Topology> dragonfly(const DragonflySpec& spec, const MachineModel& machine, const LinkModel& link);

// The diameter-2 graph of McKay, Miller and Siran as Slim Fly uses it (Besta, Hoefler, SC 2014): 2 q^2
// routers of degree (3 q - 1) / 2 for a prime q = 4 w + 1, `per_router` machines each, filled in order.
struct SlimFlySpec {
  int num_machines = 50, q = 5, per_router = 1;
  TimeNs switch_latency_ns = 1 * kMicro;
};
Result<Topology> slim_fly(const SlimFlySpec& spec, const MachineModel& machine, const LinkModel& link);

// Ready-made clusters of so many machines; dgx1 and pcie have eight, of which fewer are the first ones, and
// refuse more.
struct Preset {
  const char* name;
  const char* doc;
  Result<Topology> (*make)(int num_machines, const MachineModel& machine);
};
std::span<const Preset> topology_presets();
Result<const Preset*> find_preset(std::string_view name);

// Endpoints, rates, sizes, and a way between any two machines.
Status check_topology(const Topology& topology);

// Groups for a hierarchical algorithm: the machine of each rank when one holds several, else its group.
std::vector<std::int32_t> group_of(const Topology& topology, std::span<const int> machine_of_rank);

}  // namespace trireme::cost
