// Losses of classes that are cut over positions, on values that the cases do not have.
#include <cmath>
#include <limits>

#include "tests/conformance/cut_run.h"
#include "tests/conformance/harness.h"
#include "tests/conformance/parts.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

Tensor f64(const Shape& shape, const std::vector<double>& values) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF64, shape});
  std::copy(values.begin(), values.end(), t.values<double>().begin());
  return t;
}
Tensor labels_of(const std::vector<std::int64_t>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kI64, {n}});
  std::copy(values.begin(), values.end(), t.values<std::int64_t>().begin());
  return t;
}
Tensor weights_of(const std::vector<float>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, {n}});
  std::copy(values.begin(), values.end(), t.values<float>().begin());
  return t;
}

// What the op gives with its classes (dimension 1 of input 0) cut over 3 positions.
std::vector<double> cut_in_three(const OpDef& def, const std::vector<Tensor>& inputs) {
  const Attrs attrs = *complete_attrs(def, {});
  const auto types = types_of(inputs);
  const auto out = *infer_types(def, types, attrs);
  for (const LayoutOption& o : layout_options(def, types, out, attrs)) {
    if (!o.rewritten) continue;
    std::vector<Operands> parts(3);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto own = parts_of(inputs[i], o.inputs[i], 3, 0);
      for (std::size_t p = 0; p < 3; ++p) parts[p].push_back(own[p]);
    }
    const auto outputs = run_cut({def, attrs, types, out, o, 3}, parts);
    TR_CHECK(outputs.ok(), "{}", outputs.status().to_string());
    return to_doubles(joined({(*outputs)[0][0], (*outputs)[1][0], (*outputs)[2][0]}, o.outputs[0], out[0]));
  }
  ADD_FAILURE() << def.name << " has no rule for cut classes";
  return {};
}

TEST(ClassCut, LargeLogitsDoNotOverflow) {
  const Tensor logits = f64({2, 5}, {1e4, 0, -1e4, 1e4, 3, -9e3, -9e3, -9e3 - 1, -2e4, -1e5});
  const std::vector<Tensor> in{logits, labels_of({3, 2}), weights_of({1, 1})};
  const auto loss = cut_in_three(kSoftmaxCrossEntropy, in);
  EXPECT_NEAR(loss[0], std::log(2), 1e-12);
  EXPECT_NEAR(loss[1], 1 + std::log(2 + std::exp(-1)), 1e-12);
  std::vector<Tensor> with_d = in;
  with_d.push_back(f64({2}, {1, 1}));
  const auto grad = cut_in_three(kSoftmaxCrossEntropyGrad, with_d);
  EXPECT_NEAR(grad[0], 0.5, 1e-12);
  EXPECT_NEAR(grad[3], -0.5, 1e-12);
}

TEST(ClassCut, BadLabelsGiveNaNAndWeightZeroGivesZero) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor logits = f64({4, 3}, {1, 2, 3, 1, 2, 3, inf, inf, inf, 1, 2, 3});
  const std::vector<Tensor> in{logits, labels_of({-1, 3, 0, 9}), weights_of({1, 2, 0, 0}),
                               f64({4}, {1, 1, 1, inf})};
  const auto loss = cut_in_three(kSoftmaxCrossEntropy, {in[0], in[1], in[2]});
  const auto grad = cut_in_three(kSoftmaxCrossEntropyGrad, in);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_TRUE(std::isnan(loss[i])) << i;
    for (std::size_t c = 0; c < 3; ++c) EXPECT_TRUE(std::isnan(grad[3 * i + c])) << i;
  }
  for (const std::size_t i : {2U, 3U}) {
    EXPECT_EQ(loss[i], 0) << i;
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(grad[3 * i + c], 0) << i;
  }
}

TEST(ClassCut, TheFirstOfEqualMaximaIsThePrediction) {
  const Tensor logits = f64({5, 7}, {0,  5,  0,  5,  5,  0, 5,  //
                                     0,  5,  0,  5,  5,  0, 5,  //
                                     7,  7,  7,  7,  7,  7, 7,  //
                                     -1, -1, -1, -1, -1, 2, 2,  //
                                     1,  2,  3,  4,  5,  6, 7});
  const std::vector<Tensor> in{logits, labels_of({1, 3, 0, 5, 6}), weights_of({1, 1, 1, 1, 0})};
  const auto whole = to_doubles((*run_op(kCorrect, in, {}))[0]);
  EXPECT_EQ(whole, (std::vector<double>{1, 0, 1, 1, 0}));
  EXPECT_EQ(cut_in_three(kCorrect, in), whole);
}

}  // namespace
}  // namespace trireme::op::testing
