// Products of 16 bits in cut graphs: partial sums stay in 32 bits, and what positions give is as near to what
// the whole graph gives as that is to the same graph in 32 bits.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/sharding/zoo_cases.h"
#include "trireme/op/ops.h"

namespace trireme::parallel::testing {
namespace {

bool is_low(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

// Sums over positions: how many there are; none is of 16 bits.
int sums_in_32_bits(const graph::Graph& graph) {
  int sums = 0;
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    const bool adds = (node.def == &op::kAllreduce && node.attrs.get_text("reduction") == "sum") ||
                      node.def == &op::kReduceScatter;
    if (!adds) continue;
    EXPECT_FALSE(is_low(graph.type(node.inputs[0]).dtype)) << node.name;
    ++sums;
  }
  return sums;
}

bool multiplies_low(const graph::Graph& graph) {
  for (std::int32_t id = 0; id < graph.size(); ++id)
    for (const graph::Value v : graph.node(id).inputs)
      if (is_low(graph.type(v).dtype)) return true;
  return false;
}

double length(const Tensor& t) {
  double sum = 0;
  for (const float f : t.values<float>()) sum += static_cast<double>(f) * f;
  return std::sqrt(sum);
}

double distance(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values<float>().size(); ++i)
    sum += std::pow(static_cast<double>(a.values<float>()[i]) - b.values<float>()[i], 2);
  return std::sqrt(sum);
}

struct LowCase {
  graph::Graph graph;
  Tensors fed, expected, in_32_bits;
};

LowCase low_case(const ZooCase& c) {
  LowCase out;
  const auto low = model::build_model(c.name, c.input, c.batch, c.options, {.products = DType::kBF16});
  const auto plain = model::build_model(c.name, c.input, c.batch, c.options);
  EXPECT_TRUE(low.ok() && plain.ok()) << low.status().message();
  out.graph = low->train;
  out.fed = made_up(out.graph, c.input.num_classes);
  const auto expected = run_whole(out.graph, out.fed), exact = run_whole(plain->train, out.fed);
  EXPECT_TRUE(expected.ok() && exact.ok()) << expected.status().message();
  out.expected = *expected;
  out.in_32_bits = *exact;
  return out;
}

void expect_near(const CutOverMesh& cut, const LowCase& of, const std::vector<Tensors>& got) {
  const int parts = cut.mesh.num_ranks();
  const auto& outputs = of.graph.outputs();
  for (std::size_t o = 0; o < outputs.size(); ++o)
    for (int p = 0; p < parts; ++p) {
      const std::string& name = outputs[o].first;
      const auto part = [&](const Tensors& all) {
        return part_of(all.at(name), cut.chosen[0][0].outputs[o], parts, p);
      };
      const Tensor wanted = part(of.expected), &own = got[static_cast<std::size_t>(p)].at(name);
      ASSERT_EQ(own.type(), wanted.type()) << name;
      if (own.dtype() != DType::kF32) continue;
      const double rounding = distance(wanted, part(of.in_32_bits));
      // Roundings of one number may cancel out.
      EXPECT_LE(distance(own, wanted), 3 * rounding + 0.01 * length(wanted) + 1e-5)
          << name << " at position " << p;
    }
}

TEST(CutInLowPrecision, AddsPartialSumsIn32BitsAndGivesTheWhole) {
  for (const char* label : {"mnistmlp", "lenet", "gpt", "resnet"}) {
    const LowCase whole = low_case(zoo_case(label));
    ASSERT_TRUE(multiplies_low(whole.graph));
    for (const char* way : {"tensor", "data", "price", "columns"}) {
      SCOPED_TRACE(fmt::format("{} as {}", label, way));
      const auto cut = cut_over(whole.graph, *parse_mesh("model=3"), [&](const auto& graph, auto& request) {
        return restrict_way(way, graph, request);
      });
      ASSERT_TRUE(cut.ok()) << cut.status().message();
      EXPECT_GT(sums_in_32_bits(cut->graphs[0]), 0);
      const auto got = run_ranks(*cut, whole.fed);
      ASSERT_TRUE(got.ok()) << got.status().message();
      expect_near(*cut, whole, *got);
    }
  }
}

}  // namespace
}  // namespace trireme::parallel::testing
