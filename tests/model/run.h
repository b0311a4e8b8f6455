// Runs a model's graphs through the executor on made-up samples.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/exec/session.h"
#include "trireme/model/layers.h"
#include "trireme/model/zoo.h"

namespace trireme::model {

inline Tensor tensor_of(std::vector<float> values, const Shape& shape) {
  return Tensor::from<float>(values, shape);
}
inline std::vector<float> floats(const Tensor& t) {
  const auto values = t.values<float>();
  return {values.begin(), values.end()};
}

// A value for every input of the graph. Weights are 1 / n; integers are below `below`.
inline exec::Feeds made_up(const graph::Graph& g, int below, std::uint64_t seed = 7) {
  exec::Feeds feeds;
  for (std::int32_t i = 0; i < g.size(); ++i) {
    const graph::Node& node = g.node(i);
    if (node.def->name != "input") continue;
    const std::string name = node.attrs.get_text("name");
    Tensor t = *Tensor::allocate(cpu_device(), node.outputs[0]);
    Philox rng(seed, hash_text(name));
    const std::int64_t n = t.shape().num_elems();
    for (std::int64_t e = 0; e < n; ++e) {
      if (t.dtype() == DType::kF32)
        t.data<float>()[e] = name == "weights" ? 1.0F / static_cast<float>(n) : 2 * rng.next_uniform() - 1;
      else if (t.dtype() == DType::kI32)
        t.data<std::int32_t>()[e] =
            static_cast<std::int32_t>(rng.next_below(static_cast<std::uint32_t>(below)));
      else
        t.data<std::int64_t>()[e] = e;
    }
    feeds.emplace(name, t);
  }
  return feeds;
}

inline std::vector<std::string> output_names(const graph::Graph& g) {
  std::vector<std::string> names;
  for (const auto& [name, value] : g.outputs()) names.push_back(name);
  return names;
}

using Values = std::map<std::string, Tensor>;

inline Values initial_values(const ModelGraphs& m, std::uint64_t seed = 1) {
  Values values;
  for (const auto* list : {&m.parameters, &m.frozen})
    for (const Parameter& p : *list) {
      Tensor t = *Tensor::allocate(cpu_device(), p.type);
      initialise(p, seed, t.values<float>());
      values.emplace(p.name, t);
    }
  for (const Statistic& s : m.statistics) {
    Tensor t = *Tensor::allocate(cpu_device(), s.type);
    for (float& v : t.values<float>()) v = static_cast<float>(s.initial);
    values.emplace(s.name, t);
  }
  return values;
}

// All outputs of the graph by name.
inline Values run(const graph::Graph& g, const Values& variables, const exec::Feeds& feeds) {
  auto session = exec::BlockingSession::make(g, {}, 1);
  EXPECT_TRUE(session.ok()) << session.status().to_string();
  for (const auto& [name, value] : g.variables())
    EXPECT_TRUE(session->variables().add(name, variables.at(name)).ok()) << name;
  const auto names = output_names(g);
  const auto got = session->run(feeds, names);
  Values out;
  EXPECT_TRUE(got.ok()) << got.status().to_string();
  for (std::size_t i = 0; got.ok() && i < names.size(); ++i) out.emplace(names[i], (*got)[i]);
  return out;
}

}  // namespace trireme::model
