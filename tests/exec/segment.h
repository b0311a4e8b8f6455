// A segment of a net with its gradients, as a rank of a pipeline has it, and phases of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/exec/fixtures.h"
#include "trireme/base/rng.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::exec {

using Outputs = std::map<std::string, std::vector<std::byte>>;
inline constexpr int kLayers = 4;

// A segment of a net: y = f(x), and for a gradient dy that comes in, dx and the gradients of the weights.
inline Graph segment(std::int64_t rows = 8) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {rows, 16}), dy = b.input("dy", kF32, {rows, 16});
  std::vector<Value> wrt{x};
  Value h = x;
  for (int i = 0; i < kLayers; ++i) {
    wrt.push_back(b.variable(fmt::format("w{}", i), kF32, {16, 16}));
    wrt.push_back(b.variable(fmt::format("b{}", i), kF32, {16}));
    h = b.tanh(b.bias_add(b.matmul(h, wrt[wrt.size() - 2]), wrt.back()));
  }
  b.output("y", h);
  const std::vector<Value> grads =
      *graph::add_gradients(g, std::vector<Value>{h}, std::vector<Value>{dy}, wrt);
  b.output("dx", grads[0]);
  for (std::size_t i = 1; i < grads.size(); ++i)
    b.output(fmt::format("d{}{}", i % 2 == 1 ? "w" : "b", (i - 1) / 2), grads[i]);
  EXPECT_TRUE(b.status().ok()) << b.status().to_string();
  return g;
}

inline std::vector<std::vector<std::string>> segment_phases() {
  std::vector<std::vector<std::string>> phases{{"y"}, {"dx"}, {}};
  for (int i = 0; i < kLayers; ++i)
    for (const char* kind : {"w", "b"}) phases[2].push_back(fmt::format("d{}{}", kind, i));
  return phases;
}

inline Tensor random_tensor(const TensorType& type, std::uint64_t seed) {
  Tensor t = *Tensor::allocate(cpu_device(), type);
  Philox rng(seed, 13);
  for (float& f : t.values<float>()) f = rng.next_uniform() - 0.5F;
  return t;
}

inline Feeds segment_feeds(const Graph& g, std::uint64_t sample) {
  Feeds feeds;
  for (const auto& [name, v] : g.variables()) feeds.emplace(name, random_tensor(g.type(v), 5));
  for (const char* name : {"x", "dy"})
    feeds.emplace(name, random_tensor(g.type(*g.find_input(name)), 100 + 2 * sample + (name[0] == 'x')));
  return feeds;
}

inline Outputs fetch_all(const Execution& e, const Graph& g) {
  Outputs out;
  for (const auto& [name, v] : g.outputs()) {
    const Result<Tensor> t = e.fetch(name);
    EXPECT_TRUE(t.ok()) << t.status().to_string();
    if (t.ok()) out[name] = graph::bits(*t);
  }
  return out;
}

}  // namespace trireme::exec
