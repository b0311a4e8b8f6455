// Random nets with a loss and gradients: images, text or sequences, built as models build them, so that every
// pass of the pipeline finds what it looks for in some of them.
#pragma once

#include <string>
#include <vector>

#include "tests/graph/small_net.h"
#include "trireme/op/ops.h"

namespace trireme::graph {

struct RandomNet {
  Graph graph;  // with the outputs "loss", "correct" and "grad:<variable>"
  Feeds feeds;
};

class RandomNetMaker {
 public:
  explicit RandomNetMaker(std::uint64_t seed) : rng_(seed, 91) {}

  // `low`: the dtype of products; f32 for none.
  RandomNet make(DType low) {
    Graph plain;
    Builder b(plain);
    b_ = &b;
    const std::size_t kind = below(3);
    const Value rows = kind == 0 ? images() : kind == 1 ? text() : sequence();
    add_loss(b.bias_add(b.matmul(rows, variable({b.type(rows).shape[1], kClasses})), variable({kClasses})));
    out_.graph = low == DType::kF32 ? plain : *lower_precision(plain, low);
    add_gradient_outputs(out_.graph);
    return std::move(out_);
  }

 private:
  using Ints = std::vector<std::int64_t>;
  static constexpr std::int64_t kClasses = 4, kSamples = 2;

  std::size_t below(std::size_t n) { return rng_.next_below(static_cast<std::uint32_t>(n)); }
  bool coin() { return below(2) == 0; }
  Shape shape(Value v) const { return b_->type(v).shape; }
  Value variable(const Shape& s) {
    return random_variable(*b_, rng_, out_.feeds, fmt::format("v{}", num_variables_++), s);
  }
  Value node(const OpDef& def, std::vector<Value> in, Attrs attrs = {}) {
    const Value made = b_->add_node(def, std::move(in), std::move(attrs));
    TR_CHECK(b_->status().ok(), "{}", b_->status().to_string());
    return made;
  }
  Value activated(Value v) {
    switch (below(4)) {
      case 0:
        return b_->tanh(v);
      case 1:
        return b_->sigmoid(v);
      default:
        return b_->relu(v);
    }
  }

  Value convolved(Value x, std::int64_t channels) {
    const std::int64_t size = coin() ? 3 : 1;
    Value y = node(op::kConv2d, {x, variable({channels, shape(x)[1], size, size})},
                   {{"pad_h", size / 2}, {"pad_w", size / 2}});
    if (coin()) return b_->bias_add(y, variable({channels}));
    return node(op::kBatchNorm, {y, variable({channels}), variable({channels})});
  }
  Value images() {
    Value x = activated(convolved(variable({kSamples, 8, 8, 8}), 8));
    for (std::size_t block = 0; block < 1 + below(3); ++block) {
      const Value first = activated(convolved(x, 8)), second = convolved(first, 8);
      x = b_->relu(coin() ? b_->add(second, x) : second);
      const std::int64_t two = 2;
      const Attrs halves{{"window_h", two}, {"window_w", two}, {"stride_h", two}, {"stride_w", two}};
      if (shape(x)[2] > 2 && coin()) x = node(coin() ? op::kMaxPool2d : op::kAvgPool2d, {x}, halves);
    }
    if (coin()) return node(op::kMean, {x}, {{"axes", Ints{2, 3}}});
    return b_->reshape(x, {kSamples, shape(x).num_elems() / kSamples});
  }

  Value normed(Value x) { return node(op::kLayerNorm, {x, variable({8}), variable({8})}); }
  Value attended(Value x) {
    const Value all = b_->bias_add(b_->matmul(x, variable({8, 24})), variable({24}));
    const Value parts = node(op::kSplit, {b_->reshape(all, {kSamples, 5, 24})},
                             {{"axis", std::int64_t{2}}, {"sizes", Ints{8, 8, 8}}});
    const Attrs turn{{"order", Ints{0, 2, 1, 3}}};
    std::vector<Value> qkv;
    for (const std::int32_t i : {0, 1, 2})
      qkv.push_back(node(op::kTranspose, {b_->reshape({parts.node, i}, {kSamples, 5, 2, 4})}, turn));
    const Value heads = node(op::kAttention, qkv, {{"causal", coin()}, {"scale", 0.5}});
    return b_->reshape(node(op::kTranspose, {heads}, turn), {kSamples * 5, 8});
  }
  Value text() {
    Value x = b_->matmul(variable({kSamples * 5, 4}), variable({4, 8}));
    for (std::size_t block = 0; block < 1 + below(3); ++block) {
      const Value y = normed(x);
      const Value inner =
          coin() ? attended(y)
                 : node(op::kGelu, {b_->bias_add(b_->matmul(y, variable({8, 8})), variable({8}))});
      x = b_->add(x, b_->bias_add(b_->matmul(inner, variable({8, 8})), variable({8})));
    }
    return normed(x);
  }

  Value layer_of(Value x, const OpDef& def, std::int64_t gates, std::int64_t states) {
    constexpr std::int64_t kUnits = 4;
    std::vector<Value> in{x};
    for (std::int64_t i = 0; i < states; ++i) in.push_back(variable({kSamples, kUnits}));
    in.push_back(variable({gates * kUnits, shape(x)[2]}));
    in.push_back(variable({gates * kUnits, kUnits}));
    for (int i = 0; i < 2; ++i) in.push_back(variable({gates * kUnits}));
    return node(def, in);
  }
  Value sequence() {  // batch first outside of the layers, time first inside
    const Attrs turn{{"order", Ints{1, 0, 2}}};
    Value x = variable({kSamples, 3, 4});
    for (std::size_t layer = 0; layer < 1 + below(3); ++layer) {
      const Value turned = node(op::kTranspose, {x}, turn);
      const std::size_t kind = below(4);
      const Value y = kind == 0   ? layer_of(turned, op::kRnn, 1, 1)
                      : kind == 1 ? layer_of(turned, op::kGru, 3, 1)
                                  : layer_of(turned, op::kLstm, 4, 2);
      x = node(op::kTranspose, {y}, turn);
    }
    return b_->reshape(x, {kSamples * 3, 4});
  }

  void add_loss(Value logits) {
    const std::int64_t n = shape(logits)[0];
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(below(kClasses)));
    out_.feeds.emplace("labels", Tensor::from<std::int32_t>(ids, {n}));
    out_.feeds.emplace("weights", Tensor::from<float>(std::vector<float>(ids.size(), 0.5F), {n}));
    const Value labels = b_->input("labels", DType::kI32, {n}),
                weights = b_->input("weights", DType::kF32, {n});
    b_->output("loss", b_->sum(node(op::kSoftmaxCrossEntropy, {logits, labels, weights})));
    b_->output("correct", b_->sum(node(op::kCorrect, {logits, labels, weights})));
  }

  Philox rng_;
  Builder* b_ = nullptr;
  RandomNet out_;
  int num_variables_ = 0;
};

inline RandomNet random_net(std::uint64_t seed, DType low) { return RandomNetMaker(seed).make(low); }

}  // namespace trireme::graph
