// Runs two graphs on the same feeds and compares everything they leave: named outputs and variables.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/graph/interpreter.h"
#include "trireme/graph/graph.h"

namespace trireme::graph {

// What a run leaves: outputs by name, then the feeds (variables may have changed).
inline Feeds results_of(const Graph& graph, const Feeds& feeds) {
  Feeds own = copy_of(feeds), results;
  const auto values = interpret(graph, own);
  for (const auto& [name, v] : graph.outputs())
    results.emplace("output " + name,
                    copy_of(values[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]));
  for (const auto& [name, t] : own) results.emplace("feed " + name, t);
  return results;
}

inline void expect_same_results(const Graph& graph, const Graph& expected, const Feeds& feeds,
                                double tolerance, const std::string& what) {
  const Feeds got = results_of(graph, feeds), want = results_of(expected, feeds);
  ASSERT_EQ(got.size(), want.size()) << what;
  for (const auto& [name, t] : want) {
    ASSERT_TRUE(got.contains(name)) << what << ": " << name;
    const Tensor& own = got.at(name);
    ASSERT_EQ(own.type(), t.type()) << what << ": " << name;
    if (tolerance == 0 || t.dtype() != DType::kF32) {
      ASSERT_EQ(bits(own), bits(t)) << what << ": " << name << "\n" << graph.to_text();
      continue;
    }
    for (std::size_t i = 0; i < t.values<float>().size(); ++i) {
      const float a = own.values<float>()[i], b = t.values<float>()[i];
      ASSERT_NEAR(a, b, tolerance * std::max(1.0F, std::abs(b))) << what << ": " << name << "[" << i << "]";
    }
  }
}

// Op name to how many nodes have it.
inline int count_ops(const Graph& graph, std::string_view op) {
  int n = 0;
  for (std::int32_t i = 0; i < graph.size(); ++i) n += graph.node(i).def->name == op;
  return n;
}

// Nodes of the op whose operands have forms; of any op where none is named.
inline int count_formed(const Graph& graph, std::string_view op = "") {
  int n = 0;
  for (std::int32_t i = 0; i < graph.size(); ++i)
    n += !graph.node(i).forms.is_plain() && (op.empty() || graph.node(i).def->name == op);
  return n;
}

}  // namespace trireme::graph
