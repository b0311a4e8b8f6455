// Topology: the machines of a cluster and the links between them.
#pragma once

#include <vector>

#include "trireme/cost/cost.h"

namespace trireme::cost {

// Every machine hangs on one switch by an up and a down link; ranks of one machine talk over `local`.
// (More topologies are a value of the same kind.)
struct Topology {
  std::vector<MachineModel> machines;
  LinkModel up, down;
  LinkModel local{.latency_ns = 500, .bytes_per_second = 10e9, .message_overhead_ns = 200};

  static Topology single_switch(int num_machines, MachineModel machine, LinkModel link);
};

}  // namespace trireme::cost
