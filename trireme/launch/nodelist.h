// Host lists as Slurm writes them: "node[01-03,7],gpu5". Internal to launch.
#pragma once

#include <string>
#include <string_view>

#include "trireme/launch/environment.h"

namespace trireme::launch {

struct Nodelist {
  std::string first;
  int count = 0;  // hosts in all
};
Result<Nodelist> parse_nodelist(std::string_view text);

// Tasks on the host of position `node`, from the counts of all as Slurm writes them: "2(x3),1". kInvalid: no
// such list, or a list without that host.
Result<int> tasks_of_node(std::string_view text, int node);

// First host of the job's list, with a port that follows from the job id. Empty outside Slurm.
Result<std::string> slurm_coordinator(const Lookup& get);

}  // namespace trireme::launch
