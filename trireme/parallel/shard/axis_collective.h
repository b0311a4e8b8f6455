// AxisCollective: a collective in the graph of a position, as the schedule that the positions run. Pure.
#pragma once

#include "trireme/collective/schedule.h"
#include "trireme/graph/graph.h"
#include "trireme/parallel/shard/reshard.h"

namespace trireme::parallel {

struct AxisCollective {
  const collective::Algorithm* algorithm = nullptr;
  collective::ScheduleSpec spec;  // a halo has the edges along which something travels
};

// Whether the node makes its positions exchange something along the axis.
bool is_collective_along(const graph::Node& node, std::string_view axis);
// `node`: such a one of `part`, the graph of any position. Algorithms are those of runs, or, where runs
// choose by price, one that sends as much as those do.
AxisCollective collective_of(const graph::Graph& part, const graph::Node& node, int num_parts);

// Seconds, and bytes that the busiest position sends.
StepCost cost_of(const AxisCollective& c, const AxisCosts& costs);
double bytes_sent(const AxisCollective& c, int position);

}  // namespace trireme::parallel
