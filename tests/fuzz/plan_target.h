// One input of the plan reader's fuzz target. What is read is what the file says: no number is cut to fit,
// and the plan written again reads as the same.
#pragma once

#include "trireme/base/bytes.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

inline bool run_plan_target(ByteView bytes) {
  const Result<Json> json = parse_json(as_text(bytes), "plan.json");
  if (!json.ok()) return false;
  const Result<Plan> plan = plan_from_json(*json);
  if (!plan.ok()) {
    TR_CHECK(!plan.status().message().empty());
    return false;
  }
  const Json written = to_json(*plan);
  const bool first = (*json)["version"] == 1;
  const auto check = [](const char* what, const Json& given, const Json& read) {
    TR_CHECK(given == read, "{}: {} was read as {}", what, given.dump(), read.dump());
  };
  for (const char* key : {"shard_batch", "shard_threads"}) check(key, (*json)[key], written[key]);
  check("shards", first ? (*json)["logical_shards"] : (*json)["logical_mesh"]["shards"],
        written["logical_mesh"]["shards"]);
  check("owners", first ? (*json)["owners"] : (*json)["owners"]["data"], written["owners"]["data"]);
  for (std::size_t i = 0; i < written["buckets"].size(); ++i)
    for (const char* key : {"slot", "offsets", "statistic_offsets", "num_elems", "metrics_offset"})
      TR_CHECK(written["buckets"][i][key] == (*json)["buckets"][i][key], "bucket {}: {}", i, key);
  const Result<Plan> second = plan_from_json(written);
  TR_CHECK(second.ok(), "{}", second.status().to_string());
  TR_CHECK(to_json(*second) == written);
  return true;
}

}  // namespace trireme::plan
