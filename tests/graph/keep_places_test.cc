// Max pooling between convolutions: the gradient by places is the gradient by the image, to the bit.
#include "trireme/graph/pass/passes.h"

#include <gtest/gtest.h>

#include "tests/graph/run_pass.h"
#include "tests/graph/same_outputs.h"
#include "trireme/base/rng.h"
#include "trireme/graph/builder.h"
#include "trireme/op/ops.h"

namespace trireme::graph {
namespace {

using I = std::int64_t;

struct Pooled {
  Graph graph;
  Feeds feeds;
  explicit Pooled(const Attrs& pool) {
    Builder b(graph);
    Philox rng(9);
    Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {2, 3, 16, 14}});
    for (float& f : t.values<float>()) f = static_cast<float>(rng.next_below(7));  // with equal maxima
    feeds.emplace("x", t);
    const Value x = b.variable("x", DType::kF32, {2, 3, 16, 14});
    const Value y = b.add_node(op::kMaxPool2d, {x}, pool);
    b.output("y", y);
    const Value loss = b.sum(b.mul(y, b.tanh(y)));
    b.output("dx", (*add_gradients(graph, loss, std::vector<Value>{x}))[0]);
    TR_CHECK(b.status().ok(), "{}", b.status().to_string());
    graph = *run_pass("cse", graph);
  }
};

TEST(KeepPlaces, GiveTheBitsOfLookingForMaximaAgain) {
  const Attrs overlapping{{"window_h", I{3}}, {"window_w", I{3}}, {"stride_h", I{2}},
                          {"stride_w", I{2}}, {"pad_h", I{1}},    {"pad_w", I{1}}};
  const Attrs wide{{"window_h", I{2}}, {"window_w", I{5}}, {"stride_h", I{1}}, {"stride_w", I{4}}};
  for (const Attrs& attrs : {overlapping, wide}) {
    const Pooled pooled(attrs);
    const Graph after = *run_pass("keep_places", pooled.graph);
    ASSERT_TRUE(verify(after).ok()) << verify(after).to_string();
    EXPECT_EQ(count_ops(after, "max_pool2d_places"), 1) << after.to_text();
    EXPECT_EQ(count_ops(after, "max_pool2d_places_grad"), 1);
    EXPECT_EQ(count_ops(after, "max_pool2d") + count_ops(after, "max_pool2d_grad"), 0);
    expect_same_results(after, pooled.graph, pooled.feeds, 0, "places");
    EXPECT_EQ(run_pass("keep_places", after)->to_text(), after.to_text());
  }
}

TEST(KeepPlaces, LeaveLargeWindowsAndPoolingWithoutAGradient) {
  const Pooled large({{"window_h", I{8}}, {"window_w", I{7}}, {"stride_h", I{8}}, {"stride_w", I{7}}});
  EXPECT_EQ(run_pass("keep_places", large.graph)->to_text(), large.graph.to_text());
  Graph forward;
  Builder b(forward);
  const Value x = b.variable("x", DType::kF32, {1, 1, 4, 4});
  const Attrs halves{{"window_h", I{2}}, {"window_w", I{2}}, {"stride_h", I{2}}, {"stride_w", I{2}}};
  b.output("y", b.add_node(op::kMaxPool2d, {x}, halves));
  EXPECT_EQ(run_pass("keep_places", forward)->to_text(), forward.to_text());
}

}  // namespace
}  // namespace trireme::graph
