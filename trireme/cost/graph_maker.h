// Adds vertices and cables to a Topology; used by the makers only.
#pragma once

#include "trireme/cost/topology.h"

namespace trireme::cost {

class GraphMaker {
 public:
  GraphMaker(std::string name, int num_machines, const MachineModel& machine) {
    t_.name = std::move(name);
    t_.machines.assign(static_cast<std::size_t>(num_machines), machine);
    t_.group.assign(static_cast<std::size_t>(num_machines), 0);
  }

  // Gives its vertex.
  std::int32_t add_switch(std::int32_t level) {
    t_.switch_level.push_back(level);
    return t_.num_machines() + static_cast<std::int32_t>(t_.switch_level.size()) - 1;
  }
  void link(std::int32_t from, std::int32_t to, const LinkModel& model) {
    t_.links.push_back({from, to, model, 0});
  }
  void cable(std::int32_t a, std::int32_t b, const LinkModel& model) {
    link(a, b, model);
    link(b, a, model);
  }
  // A machine's own cable: overhead and latency on the way up only.
  void attach(std::int32_t machine, std::int32_t vertex, const LinkModel& model) {
    link(machine, vertex, model);
    link(vertex, machine,
         {.latency_ns = 0, .bytes_per_second = model.bytes_per_second, .message_overhead_ns = 0});
  }
  void put_in_group(std::int32_t machine, std::int32_t group) {
    t_.group[static_cast<std::size_t>(machine)] = group;
  }
  Topology& topology() { return t_; }
  Topology take() { return std::move(t_); }

 private:
  Topology t_;
};

// A link between switches: no processor takes part.
inline LinkModel switch_link(TimeNs latency_ns, double bytes_per_second) {
  return {.latency_ns = latency_ns, .bytes_per_second = bytes_per_second, .message_overhead_ns = 0};
}

// ok, or that there are too many machines or cables; no product of counts overflows before.
inline constexpr double kMostParts = 1 << 22;
Status check_product(std::string_view topology, std::initializer_list<int> counts);
// ok, or that `what` must be at least `least`.
Status check_at_least(std::string_view topology, std::string_view what, double got, double least);

}  // namespace trireme::cost
