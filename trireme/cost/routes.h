// Routes: which links a message takes between two machines of a Topology.
//
// Ways with the fewest links; where several begin alike, Topology::spread chooses, always the same for a pair
// of machines. Tables are made when a destination is first asked for: one per switch that has machines, not
// one per pair. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/cost/topology.h"

namespace trireme::cost {

class Routes {
 public:
  explicit Routes(const Topology& topology);

  // Those of the topology; of a single switch: 2 m the up link of machine m, 2 m + 1 its down link.
  std::span<const TopologyLink> links() const { return links_; }

  // The link that a message from machine `source` to `target` takes at `vertex`; -1: there is no way.
  std::int32_t next(std::int32_t vertex, std::int32_t source, std::int32_t target) {
    const auto v = static_cast<std::size_t>(vertex), t = static_cast<std::size_t>(target);
    if (vertex == access_[t]) return last_link_[t];
    if (vertex < num_machines_ && only_out_[v] >= 0) return only_out_[v];
    return choose(vertex, source, target);
  }

  std::vector<std::int32_t> path(int source, int target);  // links in order; empty: no way, or the same
  // What one message alone meets: overhead of the first link, sum of latencies, least bandwidth. The local
  // link for source == target.
  LinkModel path_model(int source, int target);

 private:
  // Next links towards one vertex: those of vertex v are links[first[v]] .. links[first[v+1]-1].
  struct Table {
    std::vector<std::uint32_t> first;
    std::vector<std::int32_t> links;
  };
  std::int32_t choose(std::int32_t vertex, std::int32_t source, std::int32_t target);
  void build(Table& table, std::int32_t target) const;

  int num_machines_, num_vertices_;
  Spread spread_;
  bool machines_forward_;
  LinkModel local_;
  std::vector<TopologyLink> links_;
  std::vector<std::int32_t> level_;                  // per vertex; machines: 0
  std::vector<std::uint32_t> out_first_, in_first_;  // links by their `from` and by their `to`
  std::vector<std::int32_t> out_, in_;
  std::vector<std::int32_t> access_, last_link_;  // per machine with one link in: its `from`, the link
  std::vector<std::int32_t> only_out_;            // per machine with one link out
  std::vector<Table> tables_;                     // per vertex, empty until asked for
};

// What prices need to know of a topology, from a fixed sample of pairs.
struct TopologySummary {
  LinkModel near;  // mean path between machines of one group (the same as far when groups have one machine)
  LinkModel far;   // mean path between machines of different groups (the same as near when there is one)
  LinkModel typical;  // mean path between any two
  // Every machine sends to the one half way round: how many times longer than alone the busiest link takes.
  double oversubscription = 1;
};
TopologySummary summarise(const Topology& topology);

}  // namespace trireme::cost
