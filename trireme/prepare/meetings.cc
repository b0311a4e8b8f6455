#include "trireme/prepare/meetings.h"

#include "trireme/graph/graph.h"

namespace trireme::prepare {

bool replicas_meet(const graph::Graph& graph) {
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const graph::Node& node = graph.node(i);
    if (node.def->family != "comm") continue;
    const std::string& axis = node.attrs.get_text("axis");
    if (axis.empty() || axis == parallel::kDataAxis) return true;
  }
  return false;
}

Status check_meetings(const graph::Graph& train, const plan::Plan& plan,
                      const std::vector<collective::LeafRun>& owners) {
  if (owners.size() < 2 || !replicas_meet(train)) return {};
  if (plan.timetable == plan::Timetable::kLeased)
    return error(
        Code::kInvalid,
        "[plan] the train graph has collectives, in which all workers meet, and parallel.agreement = "
        "\"{}\" lets each go at its own pace; use a rule in lock step, such as bsp",
        plan.agreement);
  std::string counts;
  bool equal = true;
  for (const collective::LeafRun& run : owners) {
    counts += fmt::format("{}{}", counts.empty() ? "" : ", ", run.count);
    equal = equal && run.count == owners.front().count;
  }
  if (equal) return {};
  return error(Code::kInvalid,
               "[plan] the train graph has collectives, in which the first shards of all workers meet, then "
               "the second ones: got {} shards, expected as many on each of {} workers; use a multiple of {} "
               "for train.logical_shards",
               counts, owners.size(), owners.size());
}

}  // namespace trireme::prepare
