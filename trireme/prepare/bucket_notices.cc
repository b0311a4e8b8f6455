#include "trireme/prepare/bucket_notices.h"

#include <map>

#include "trireme/graph/storage.h"

namespace trireme::prepare {
namespace {

// What the outside waits for before it sends a bucket: the last of its outputs and the last reader of its
// parameters. A GPU runs the nodes in their order, so one cut per bucket is enough.
exec::Notice last_of(const graph::Graph& graph, const plan::Bucket& bucket, bool has_metrics) {
  exec::Notice last;
  std::int32_t written = -1, read = -1;
  const auto output = [&](const std::string& name) {
    const std::optional<graph::Value> value = graph.find_output(name);
    if (value && value->node > written) written = value->node, last.output = name;
  };
  for (const std::string& p : bucket.parameters) output("grad:" + p);
  for (const std::string& s : bucket.statistics) output("stat:" + s);
  if (has_metrics) output("loss"), output("correct");
  const graph::ValueMap<graph::Value> roots = graph::storage_roots(graph);
  std::map<std::int32_t, std::string> variables;  // by the nodes that they are
  for (const std::string& p : bucket.parameters)
    if (const std::optional<graph::Value> v = graph.find_variable(p)) variables[v->node] = p;
  for (std::int32_t i = 0; i < graph.size(); ++i)
    for (const graph::Value v : graph.node(i).inputs)
      if (const auto at = variables.find(roots[v].node); at != variables.end() && i > read)
        read = i, last.variable = at->second;
  return last;
}

}  // namespace

std::vector<exec::Notice> bucket_notices(const graph::Graph& graph, const plan::Plan& plan) {
  std::vector<exec::Notice> all;
  for (std::size_t i = 0; i < plan.buckets.size(); ++i)
    all.push_back(last_of(graph, plan.buckets[i], i + 1 == plan.buckets.size()));
  return all;
}

}  // namespace trireme::prepare
