#include "trireme/measure/step/profile_rows.h"

#include <algorithm>
#include <map>

namespace trireme::measure {
namespace {

struct Sum {
  std::string op, kernel, types;
  int nodes = 0;
  TimeNs ns = 0;
  double flops = 0, bytes = 0;
};

std::map<std::string_view, const graph::Node*> nodes_by_name(const graph::Graph& graph) {
  std::map<std::string_view, const graph::Node*> found;
  for (std::int32_t i = 0; i < graph.size(); ++i) found.emplace(graph.node(i).name, &graph.node(i));
  return found;
}

std::string types_of(const graph::Graph& graph, const graph::Node* node) {
  std::string text;
  if (node == nullptr) return text;
  for (const graph::Value v : node->inputs)
    if (graph.type(v).shape.rank() > 1) text += graph.type(v).to_string() + " ";
  text += "->";
  for (const TensorType& t : node->outputs)
    if (t.shape.rank() > 1 || node->outputs.size() == 1) text += " " + t.to_string();
  return text;
}

Json rows_of(const graph::Graph& graph, const exec::Profile& before, const exec::Profile& after,
             std::int64_t steps, bool with_types, std::size_t most) {
  const auto nodes = nodes_by_name(graph);
  std::map<std::string, Sum> sums;
  for (std::size_t i = 0; i < after.nodes.size(); ++i) {
    const exec::NodeProfile& one = after.nodes[i];
    const auto at = nodes.find(one.name);
    const graph::Node* node = at == nodes.end() ? nullptr : at->second;
    const std::string types = with_types ? types_of(graph, node) : "";
    Sum& sum = sums[fmt::format("{}|{}|{}", one.op, one.kernel, types)];
    sum.op = one.op;
    sum.kernel = one.kernel;
    sum.types = types;
    ++sum.nodes;
    sum.ns += one.total_ns - (i < before.nodes.size() ? before.nodes[i].total_ns : 0);
    sum.flops += one.flops;
    sum.bytes += one.bytes;
  }
  std::vector<Sum> rows;
  for (auto& [key, sum] : sums) rows.push_back(std::move(sum));
  std::stable_sort(rows.begin(), rows.end(), [](const Sum& a, const Sum& b) { return a.ns > b.ns; });
  if (rows.size() > most) rows.resize(most);
  Json list = Json::array();
  for (const Sum& sum : rows) {
    const double ms = per_step_ms(sum.ns, steps);
    Json row{{"op", sum.op},
             {"kernel", sum.kernel},
             {"nodes", sum.nodes},
             {"ms", ms},
             {"gflops", ms > 0 ? sum.flops * 1e-6 / ms : 0},
             {"gbytes_per_second", ms > 0 ? sum.bytes * 1e-6 / ms : 0}};
    if (with_types) row["types"] = sum.types;
    list.push_back(std::move(row));
  }
  return list;
}

}  // namespace

double per_step_ms(TimeNs total, std::int64_t steps) {
  return to_seconds(total) * 1e3 / static_cast<double>(steps);
}

Json profile_by_op(const graph::Graph& graph, const exec::Profile& before, const exec::Profile& after,
                   std::int64_t steps) {
  return rows_of(graph, before, after, steps, false, after.nodes.size());
}

Json profile_by_kind(const graph::Graph& graph, const exec::Profile& before, const exec::Profile& after,
                     std::int64_t steps, std::size_t most) {
  return rows_of(graph, before, after, steps, true, most);
}

Json profile_memory(const exec::MemoryReport& m) {
  return {{"values", m.values_bytes},
          {"workspaces", m.workspace_bytes},
          {"weights", m.variables_bytes},
          {"inputs", m.feeds_bytes},
          {"gradients", m.bound_bytes}};
}

}  // namespace trireme::measure
