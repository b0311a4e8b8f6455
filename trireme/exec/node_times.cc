#include "trireme/exec/node_times.h"

#include <algorithm>

#include "trireme/op/forms.h"

namespace trireme::exec {

NodeTimes::NodeTimes(const CompiledPlan& plan)
    : plan_(plan),
      rows_(static_cast<std::size_t>(plan.program.size())),
      strand_begin_(plan.part.strands.size()) {
  for (std::size_t i = 0; i < rows_.size(); ++i)
    rows_[i].weight =
        static_cast<double>(cost::compute_time(graph::node_cost(plan.program, static_cast<std::int32_t>(i)),
                                               cost::MachineModel{}, plan.options.width));
}

void NodeTimes::add(std::int32_t node, TimeNs begin, TimeNs end) {
  Row& row = rows_[static_cast<std::size_t>(node)];
  const TimeNs took = end - begin;
  row.min = row.calls == 0 ? took : std::min(row.min, took);
  row.max = std::max(row.max, took);
  row.total += took;
  row.begin = begin;
  row.end = end;
  ++row.calls;
}

void NodeTimes::add_strand(std::int32_t strand, TimeNs begin, TimeNs end) {
  const std::vector<std::int32_t>& nodes = plan_.part.strands[static_cast<std::size_t>(strand)].nodes;
  double all = 0, before = 0;
  for (const std::int32_t n : nodes) all += rows_[static_cast<std::size_t>(n)].weight;
  const double scale = all > 0 ? static_cast<double>(end - begin) / all : 0;
  TimeNs from = begin;
  for (const std::int32_t n : nodes) {
    before += rows_[static_cast<std::size_t>(n)].weight;
    // The last one ends with the strand, whatever rounding says.
    const TimeNs to = n == nodes.back() ? end : begin + static_cast<TimeNs>(before * scale);
    add(n, from, to);
    from = to;
  }
}

void NodeTimes::run_ends(TimeNs now, bool completed, bool whole) {
  if (!completed) return;
  run_ns_ += now - run_begin_;
  if (whole) ++runs_;
}

Profile NodeTimes::profile() const {
  Profile out;
  out.runs = runs_;
  out.run_ns = run_ns_;
  out.launches = launches_;
  for (std::int32_t i = 0; i < plan_.program.size(); ++i) {
    const std::int32_t strand = plan_.part.strand_of[static_cast<std::size_t>(i)];
    if (strand < 0) continue;
    const Row& row = rows_[static_cast<std::size_t>(i)];
    const graph::Node& node = plan_.program.node(i);
    const cost::OpCost cost = graph::node_cost(plan_.program, i);
    out.nodes.push_back({.name = node.name,
                         .op = op::formed_name(*node.def, node.forms),
                         .kernel = plan_.node_plan(i).kernel,
                         .strand = strand,
                         .calls = row.calls,
                         .total_ns = row.total,
                         .min_ns = row.min,
                         .max_ns = row.max,
                         .begin_ns = row.begin,
                         .end_ns = row.end,
                         .flops = cost.flops,
                         .bytes = cost.bytes});
  }
  return out;
}

}  // namespace trireme::exec
