// A classifier's loss, its gradient and its hits: one node that reads the logits once.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "tests/graph/small_net.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

struct Options {
  DType low = DType::kF32;
  bool correct = true;
  bool squared = false;  // the loss is a square: its gradient depends on it
};

struct Classifier {
  Graph graph;
  Feeds feeds;

  explicit Classifier(const Options& o) {
    Graph plain;
    Builder b(plain);
    Philox rng(5);
    const auto variable = [&](const std::string& name, const Shape& s) {
      Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, s});
      for (float& f : t.values<float>()) f = 4 * rng.next_uniform() - 2;
      feeds.emplace(name, t);
      return b.variable(name, DType::kF32, s);
    };
    const Value logits = b.matmul(variable("x", {7, 8}), variable("w", {8, 5}));
    const Value labels = b.input("labels", DType::kI32, {7}), weights = b.input("weights", DType::kF32, {7});
    Tensor ids = *Tensor::allocate(cpu_device(), {DType::kI32, Shape{7}}),
           shares = *Tensor::allocate(cpu_device(), {DType::kF32, Shape{7}});
    for (int i = 0; i < 7; ++i)
      ids.data<std::int32_t>()[i] = i % 5, shares.data<float>()[i] = i == 3 ? 0.0F : 0.25F;
    feeds.emplace("labels", ids);
    feeds.emplace("weights", shares);
    Value loss = b.sum(b.add_node(op::kSoftmaxCrossEntropy, {logits, labels, weights}));
    if (o.squared) loss = b.mul(loss, loss);
    b.output("loss", loss);
    if (o.correct) b.output("correct", b.sum(b.add_node(op::kCorrect, {logits, labels, weights})));
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = o.low == DType::kF32 ? plain : *lower_precision(plain, o.low);
    add_gradient_outputs(graph);
    graph = *run_pass("cse", *eliminate_dead_code(graph, {}));
  }
};

TEST(JoinLosses, GiveTheSameBitsFromOneNode) {
  for (const bool correct : {true, false})
    for (const DType low : {DType::kF32, DType::kBF16}) {
      const Classifier model({.low = low, .correct = correct});
      const Graph joined = *run_pass("join_losses", model.graph);
      ASSERT_TRUE(verify(joined).ok()) << verify(joined).to_string();
      EXPECT_EQ(count_ops(joined, "softmax_cross_entropy_step"), 1) << joined.to_text();
      for (const char* const gone : {"softmax_cross_entropy", "softmax_cross_entropy_grad", "correct"})
        EXPECT_EQ(count_ops(joined, gone), 0) << gone;
      expect_same_results(joined, model.graph, model.feeds, 0, "joined");
    }
}

TEST(JoinLosses, TheGradientTakesThePlaceOfTheLogits) {
  const Classifier model({.low = DType::kBF16});
  const Graph joined = *eliminate_dead_code(*run_pass("absorb_casts", *run_pass("join_losses", model.graph),
                                                      {.adaptable = {"softmax_cross_entropy_step"}}),
                                            {});
  expect_same_results(joined, model.graph, model.feeds, 0, "absorbed");
  const MemoryResult memory = *plan_memory(joined, MemoryRequest{});
  int in_place = 0;
  for (std::int32_t i = 0; i < joined.size(); ++i)
    if (!joined.node(i).forms.is_plain())
      in_place +=
          memory.plan.places[static_cast<std::size_t>(i)][0].alias_of == joined.node(i).inputs[0] ? 1 : 0;
  EXPECT_EQ(in_place, 1) << joined.to_text();
}

TEST(JoinLosses, LeaveALossThatItsGradientNeeds) {
  const Classifier model({.squared = true});
  EXPECT_EQ(run_pass("join_losses", model.graph)->to_text(), model.graph.to_text());
}

}  // namespace
}  // namespace trireme::graph
