// What small nets for the tests of passes have in common: variables filled at random, and gradients.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/graph/interpreter.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::graph {

// An f32 variable whose values, between -0.5 and 0.5, go into `feeds`.
inline Value random_variable(Builder& b, Philox& rng, Feeds& feeds, const std::string& name, const Shape& s) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, s});
  for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
  feeds.emplace(name, t);
  return b.variable(name, DType::kF32, s);
}

// The output "loss" differentiated by every variable: outputs "grad:<name>".
inline void add_gradient_outputs(Graph& graph) {
  std::vector<Value> wrt;
  for (const auto& [name, v] : graph.variables()) wrt.push_back(v);
  const auto grads = *add_gradients(graph, *graph.find_output("loss"), wrt);
  std::size_t i = 0;
  for (const auto& [name, v] : graph.variables()) graph.set_output("grad:" + name, grads[i++]);
}

}  // namespace trireme::graph
