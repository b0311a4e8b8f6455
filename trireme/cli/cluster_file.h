// The virtual cluster of a command: a cluster file (docs/virtual_cluster.md: TOML, or JSON where the name
// ends with .json) or a topology by name, and faults on top.
#pragma once

#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/cli/command.h"
#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::cli {

struct ClusterArgs {
  std::string topology, cluster, link;  // topology empty: none was asked for
  std::vector<std::string> faults;
  bool raw_faults = false;

  bool given() const { return !topology.empty() || !cluster.empty() || !link.empty(); }
};
void add_cluster_options(Options& app, ClusterArgs& args);

// `num_machines` counts where the file does not; 0: it must. Faults are added.
Result<runtime::WorldSpec> load_cluster(const ClusterArgs& args, int num_machines, runtime::RealRuntime& rt);
// Whether the file itself says how many machines there are.
Result<bool> has_size(const ClusterArgs& args, runtime::RealRuntime& rt);

// `source` names the text in errors, with the line: "cluster.toml:3:9: ...".
Result<Json> json_from_toml(std::string_view text, std::string_view source);

}  // namespace trireme::cli
