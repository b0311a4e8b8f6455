// One input of the topology reader's fuzz target: the first byte is the number of machines that the command
// line gave, the rest the file. A topology that is read, written and read again is the same.
#pragma once

#include <algorithm>

#include "trireme/base/bytes.h"
#include "trireme/cost/topology_json.h"

namespace trireme::cost {

// Counts stay small here: a person may ask for a million machines, and gets them.
inline bool has_large_count(const Json& json) {
  constexpr double kMost = 64;
  const auto large = [](const Json& value) { return value.is_number() && value.get<double>() > kMost; };
  if (!json.is_object()) return false;
  for (const auto& [key, value] : json.items()) {
    if (large(value)) return true;
    if (value.is_array() && std::any_of(value.begin(), value.end(), large)) return true;
  }
  return false;
}

inline bool run_topology_target(ByteView bytes) {
  if (bytes.empty()) return false;
  const int num_machines = static_cast<int>(bytes[0]) % 64;
  const Result<Json> json = parse_json(as_text(bytes.subspan(1)), "cluster.json");
  if (!json.ok() || has_large_count(*json)) return false;
  const Result<Topology> topology = topology_from_json(*json, num_machines);
  if (!topology.ok()) {
    TR_CHECK(!topology.status().message().empty());
    return false;
  }
  const Json written = to_json(*topology);
  const Result<Topology> second = topology_from_json(written, 0);
  TR_CHECK(second.ok(), "{} after writing {}", second.status().to_string(), written.dump());
  TR_CHECK(to_json(*second) == written);
  return true;
}

}  // namespace trireme::cost
