// Topologies as JSON, and as TOML turned into JSON: the cluster files of docs/virtual_cluster.md.
#pragma once

#include "trireme/base/json.h"
#include "trireme/cost/topology.h"

namespace trireme::cost {

// The names of `topology`: makers, "explicit", presets.
std::vector<std::string> topology_names();

// `num_machines` counts where the object does not say `machines`; 0: it must. Errors name the field, such as
// "links[3].bandwidth". The result has passed check_topology.
Result<Topology> topology_from_json(const Json& json, int num_machines);
// The explicit form, every machine and link; of a plain single switch the short one.
Json to_json(const Topology& topology);

}  // namespace trireme::cost
