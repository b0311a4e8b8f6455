#include "trireme/cost/topology.h"

namespace trireme::cost {

Topology Topology::single_switch(int num_machines, MachineModel machine, LinkModel link) {
  Topology t;
  t.machines.assign(static_cast<std::size_t>(num_machines), machine);
  t.up = t.down = link;
  return t;
}

}  // namespace trireme::cost
