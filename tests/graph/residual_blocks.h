// A small net of residual blocks, for the tests of passes around layer norms.
#pragma once

#include <string>

#include "tests/graph/run_pass.h"
#include "tests/graph/small_net.h"
#include "trireme/op/ops.h"

namespace trireme::graph {

// Two blocks x + (norm(x) w + b) in mixed precision (low: f32 for none), and gradients.
struct ResidualBlocks {
  Graph graph;
  Feeds feeds;

  explicit ResidualBlocks(DType low) {
    Graph plain;
    Builder b(plain);
    Philox rng(9);
    const auto variable = [&](const std::string& name, const Shape& s) {
      return random_variable(b, rng, feeds, name, s);
    };
    Value x = b.matmul(variable("x", {6, 4}), variable("in", {4, 8}));
    for (const char* const name : {"first", "second"}) {
      const std::string at = name;
      const Value y =
          b.add_node(op::kLayerNorm, {x, variable(at + "/scale", {8}), variable(at + "/bias", {8})});
      const Value product = b.matmul(y, variable(at + "/weight", {8, 8}));
      x = b.add(x, b.bias_add(product, variable(at + "/shift", {8})));
    }
    b.output("loss", b.sum(b.mul(x, b.tanh(x))));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = low == DType::kF32 ? plain : *lower_precision(plain, low);
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

}  // namespace trireme::graph
