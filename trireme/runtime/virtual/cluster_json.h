// A whole virtual cluster as JSON (or TOML turned into it): the topology (cost/topology_json.h) and its
// faults. docs/virtual_cluster.md has every field.
#pragma once

#include <string_view>

#include "trireme/base/json.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::runtime {

// `num_machines` counts where the file does not say `machines`; 0: it must.
Result<WorldSpec> world_from_json(const Json& json, int num_machines);

// Adds one fault, of a rank, of links or of disks. `path` names it in errors.
Status add_fault(WorldSpec& world, const Json& json, std::string path);

// An object as text, for command lines: NAME,KEY=VALUE,... where NAME becomes the value of `name_key` and
// lists are 0+3+5 or 0-7. A fault: "loss,probability=0.01,from=0-3" with name_key "kind"; a topology:
// "two-level,per_rack=8" with "topology".
Result<Json> object_from_text(std::string_view text, const char* name_key);

}  // namespace trireme::runtime
