#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/same_outputs.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"

namespace trireme::graph {
namespace {

using ::testing::HasSubstr;
constexpr DType kF32 = DType::kF32;

// A small convolutional classifier for any batch, without gradients.
struct Template {
  Graph graph;
  Value loss;
  std::vector<Value> weights;
  explicit Template(std::int64_t batch) {
    Builder b(graph);
    const Value x = b.input("x", kF32, {batch, 1, 8, 8}), labels = b.input("labels", DType::kI64, {batch}),
                counts = b.input("counts", kF32, {batch});
    weights = {b.variable("filter", kF32, {4, 1, 3, 3}), b.variable("bias", kF32, {4}),
               b.variable("w", kF32, {64, 3})};
    Value h = b.relu(b.bias_add(b.conv2d(x, weights[0], 1, 1), weights[1]));
    h = b.reshape(b.max_pool2d(h, 2, 2), {batch, 64});
    const Value logits = b.matmul(h, weights[2]);
    b.output("logits", logits);
    loss =
        b.add(b.sum(b.softmax_cross_entropy(logits, labels, counts)), b.add_node(op::kMean, {b.mul(h, h)}));
    b.output("loss", loss);
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
  }
  void add_grads() {
    const auto grads = *add_gradients(graph, loss, weights);
    for (std::size_t i = 0; i < grads.size(); ++i) graph.set_output(fmt::format("d{}", i), grads[i]);
  }
};

// Without sites: the same line builds both, gradients of a copy included.
std::string text(const Graph& g) { return g.to_text(); }

TEST(Specialise, GivesTheGraphThatIsBuiltForTheBatch) {
  for (const std::int64_t batch : {1, 2, 7, 64}) {
    const Template any(kUnknownDim), known(batch);
    const Result<Graph> special = specialise(any.graph, batch);
    ASSERT_TRUE(special.ok()) << special.status().to_string();
    EXPECT_EQ(text(*special), text(known.graph));
    EXPECT_TRUE(verify(*special).ok());
  }
}

TEST(Specialise, CommutesWithGradients) {
  for (const std::int64_t batch : {2, 7, 64}) {
    Template any(kUnknownDim), known(batch);
    any.add_grads();
    known.add_grads();
    const Result<Graph> special = specialise(any.graph, batch);
    ASSERT_TRUE(special.ok()) << special.status().to_string();
    EXPECT_EQ(text(*special), text(known.graph));
  }
}

TEST(Specialise, TemplatesPrintTheUnknownSize) {
  const Template any(kUnknownDim);
  EXPECT_THAT(any.graph.to_text(), HasSubstr("f32[?, 64]"));
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {kUnknownDim, 4});
  b.reshape(x, {4 * kUnknownDim});
  EXPECT_THAT(g.to_text(), HasSubstr("f32[4*?]"));
  const Graph special = *specialise(g, 5);
  EXPECT_EQ(special.node(1).outputs[0], (TensorType{kF32, {20}}));
}

TEST(Specialise, AnAttributeThatHidesTheUnknownSizeIsNamed) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {kUnknownDim});
  g.push_scope("head");
  b.add_node(op::kScale, {x}, {{"factor", 3.0 / static_cast<double>(kUnknownDim)}});
  const Status s = specialise(g, 8).status();
  EXPECT_THAT(s.message(), HasSubstr("'head/scale' (scale)"));
  EXPECT_THAT(s.message(), HasSubstr("specialise_test.cc"));
  EXPECT_THAT(s.message(), HasSubstr("attribute 'factor'"));
}

TEST(Specialise, OrdinarySmallFactorsAreLeftAlone) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {kUnknownDim});
  for (const double f : {1e-12, 1e-9, 1e-8, 1e-5, 0.5, 1e9, 3.0, 1e-3, 1.0 / 60000})
    b.add_node(op::kScale, {x}, {{"factor", f}});
  EXPECT_TRUE(specialise(g, 8).ok()) << specialise(g, 8).status().to_string();
}

TEST(Specialise, ABadBatchIsRefused) {
  EXPECT_THAT(specialise({}, -1).status().message(), HasSubstr("got batch -1"));
  EXPECT_THAT(specialise({}, kUnknownDim).status().message(), HasSubstr("expected 0 to"));
}

}  // namespace
}  // namespace trireme::graph
