// Embedding, attention and recurrent networks: numbers recorded from PyTorch 2 (f64), and behaviour at the
// edges.
#include <gtest/gtest.h>

#include "tests/op/run_op.h"
#include "trireme/op/ops.h"
#include "trireme/tensor/half.h"

namespace trireme::op::testing {
namespace {
using Ints = std::vector<std::int64_t>;

std::vector<double> values(std::int64_t n, double a = 1, double b = 0) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < n; ++i)
    v.push_back(a * (static_cast<double>((37 * i + 11) % 101) / 50 - 1) + b);
  return v;
}
Tensor made(const Shape& shape, double a = 1, double b = 0) {
  return Tensor::from<double>(values(shape.num_elems(), a, b), shape);
}
std::vector<Tensor> run_all(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  auto out = run_op(def, in, attrs);
  TR_CHECK(out.ok(), "{}", out.status().to_string());
  return *out;
}
// A tensor folded with values(n): one number that a wrong element changes.
double folded(const Tensor& t) {
  const auto w = values(t.shape().num_elems());
  double total = 0;
  for (std::size_t i = 0; i < w.size(); ++i) total += w[i] * t.values<double>()[i];
  return total;
}
void expect_folded(const std::vector<Tensor>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(folded(got[i]), expected[i], 1e-12) << i;
}

struct Recorded {
  const OpDef* op;
  const OpDef* grad;
  std::int64_t gates;
  Attrs attrs;
  std::vector<double> outputs, gradients;
};

std::vector<Tensor> recurrent_inputs(std::int64_t gates, std::int64_t steps = 4) {
  const std::int64_t batch = 3, size = 2, units = 3, rows = gates * units;
  std::vector<Tensor> in{made({steps, batch, size}), made({batch, units}, 0.5)};
  if (gates == 4) in.push_back(made({batch, units}, 0.7));
  in.push_back(made({rows, size}, 0.8));
  in.push_back(made({rows, units}, 0.6, 0.1));
  in.push_back(made({rows}, 0.3));
  in.push_back(made({rows}, 0.2, 0.05));
  return in;
}

TEST(Recurrent, AgreesWithPyTorch) {
  const Recorded cases[] = {
      {&kRnn,
       &kRnnGrad,
       1,
       {},
       {-0.7927925177952457, 0.057316862751094044},
       {-1.3200866542025842, -1.184985470177377, -1.6501083177532305, -0.6434284145009925, 3.179100291401678,
        3.179100291401678}},
      {&kRnn,
       &kRnnGrad,
       1,
       {{"nonlinearity", std::string("relu")}},
       {-0.47757780591452165, 0.1877476432404479},
       {-0.4120958380549737, -0.5903419879351298, -0.515119797568717, 1.0130792150001406, 1.37366830727168,
        1.37366830727168}},
      {&kLstm,
       &kLstmGrad,
       4,
       {},
       {0.42472542421049586, 0.052481484982136235, -0.26848846263930226},
       {-0.563521421032023, 0.13177626838832313, 0.9184783126662953, -0.7044017762900286, -0.2960415206630652,
        -1.2541170598874882, -1.2541170598874885}},
      {&kGru,
       &kGruGrad,
       3,
       {},
       {0.7359450279116888, 0.048561771079971075},
       {-0.30623260036639127, 1.8545101204916938, -0.38279075045798905, -0.187939289378725,
        0.05688208347047263, -0.04983096309649329}},
  };
  for (const Recorded& c : cases) {
    SCOPED_TRACE(c.op->name);
    std::vector<Tensor> in = recurrent_inputs(c.gates);
    const auto out = run_all(*c.op, in, c.attrs);
    expect_folded(out, c.outputs);
    for (std::size_t k = 0; k < out.size(); ++k)
      in.push_back(made(out[k].shape(), 0.9, 0.1 * static_cast<double>(k)));
    expect_folded(run_all(*c.grad, in, c.attrs), c.gradients);
  }
}

TEST(Recurrent, InTwoHalvesGivesTheBitsOfTheWhole) {
  const std::vector<std::pair<const OpDef*, std::int64_t>> ops{{&kRnn, 1}, {&kLstm, 4}, {&kGru, 3}};
  for (const auto& [def, gates] : ops) {
    const auto in = recurrent_inputs(gates);
    const auto whole = run_all(*def, in);
    auto half = in;
    half[0] = in[0].slice(0, 0, 1);
    const auto first = run_all(*def, half);
    half[0] = in[0].slice(0, 1, 4);
    for (std::size_t k = 1; k < first.size(); ++k) half[k] = first[k];
    const auto second = run_all(*def, half);
    for (std::size_t k = 1; k < whole.size(); ++k) {
      for (std::size_t i = 0; i < whole[k].values<double>().size(); ++i)
        EXPECT_EQ(second[k].values<double>()[i], whole[k].values<double>()[i]) << def->name;
    }
  }
}

TEST(Recurrent, WithoutStepsKeepsItsState) {
  auto in = recurrent_inputs(4, 0);
  const auto out = run_all(kLstm, in);
  EXPECT_EQ(out[0].shape(), Shape({0, 3, 3}));
  for (const std::size_t k : {1, 2}) {
    for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(out[k].values<double>()[i], in[k].values<double>()[i]);
  }
}

TEST(Recurrent, NamesTheInputThatDoesNotFit) {
  auto in = recurrent_inputs(3);
  in[3] = made({9, 4});
  EXPECT_EQ(run_op(kGru, in, {}).status().message(), "[op gru] w_hh: got f64[9, 4], expected f64[9, 3]");
  EXPECT_EQ(run_op(kRnn, recurrent_inputs(1), {{"nonlinearity", std::string("sine")}}).status().message(),
            "[op rnn] attribute 'nonlinearity': got 'sine', expected 'tanh' or 'relu'");
}

TEST(Attention, AgreesWithPyTorch) {
  const std::vector<Tensor> in{made({2, 2, 3, 4}), made({2, 2, 5, 4}, 0.8), made({2, 2, 5, 3}, 1.1)};
  auto with_dy = in;
  with_dy.push_back(made({2, 2, 3, 3}, 0.9));
  expect_folded(run_all(kAttention, in), {-2.749874127238684});
  expect_folded(run_all(kAttentionGrad, with_dy),
                {0.13191378849920443, 0.1648922356240056, -2.2498970131952873});
  const Attrs causal{{"causal", true}};
  expect_folded(run_all(kAttention, in, causal), {0.4497808049597686});
  expect_folded(run_all(kAttentionGrad, with_dy, causal),
                {-0.04826737961859945, -0.060334224523249345, 0.36800247678526543});
}

TEST(Attention, OfHugeScoresDoesNotOverflow) {
  const std::vector<double> scores{1e30, 1e30, -1e30};
  const Tensor q = Tensor::from<double>(std::vector<double>{1}, {1, 1, 1, 1});
  const Tensor k = Tensor::from<double>(scores, {1, 1, 3, 1});
  const Tensor v = Tensor::from<double>(std::vector<double>{2, 4, 100}, {1, 1, 3, 1});
  EXPECT_EQ(run_all(kAttention, {q, k, v})[0].values<double>()[0], 3);
}

TEST(Attention, WithoutKeysIsZero) {
  const auto out = run_all(kAttention, {made({1, 1, 2, 2}), made({1, 1, 0, 2}), made({1, 1, 0, 1})});
  EXPECT_EQ(out[0].values<double>()[0], 0);
  EXPECT_EQ(out[0].values<double>()[1], 0);
}

TEST(Embedding, TakesRowsAndGivesZerosForIdsOutside) {
  const Tensor table = Tensor::from<double>(std::vector<double>{1, 2, 3, 4}, {2, 2});
  const Tensor ids = Tensor::from<std::int64_t>(Ints{1, -1, 0, 2}, {4});
  const auto y = run_all(kEmbedding, {table, ids})[0];
  const std::vector<double> expected{3, 4, 0, 0, 1, 2, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(y.values<double>()[i], expected[i]) << i;
}

TEST(Embedding, GradientAddsRowsOfEqualIds) {
  const Tensor ids = Tensor::from<std::int64_t>(Ints{1, 1, 5, 0}, {2, 2});
  const Tensor dy = Tensor::from<double>(std::vector<double>{1, 2, 10, 20, 7, 7, 3, 4}, {2, 2, 2});
  const auto table = run_all(kEmbeddingGrad, {dy, ids}, {{"shape", Ints{3, 2}}})[0];
  const std::vector<double> expected{3, 4, 11, 22, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(table.values<double>()[i], expected[i]) << i;
}

TEST(Embedding, SumsOf16BitRowsAreRoundedOnce) {
  // 256 + 1 is no bf16: adding ones to a bf16 sum would stop there.
  const std::int64_t n = 300;
  const Tensor ids = Tensor::from<std::int64_t>(Ints(static_cast<std::size_t>(n), 0), {n});
  const Tensor dy = Tensor::from<BFloat16>(std::vector<BFloat16>(static_cast<std::size_t>(n), 1.0F), {n, 1});
  const auto table = run_all(kEmbeddingGrad, {dy, ids}, {{"shape", Ints{1, 1}}})[0];
  EXPECT_EQ(static_cast<float>(table.values<BFloat16>()[0]), 300.0F);
}

TEST(Embedding, NeedsARow) {
  EXPECT_EQ(
      run_op(kEmbedding, {made({0, 2}), Tensor::from<std::int64_t>(Ints{0}, {1})}, {}).status().message(),
      "[op embedding] table: got f64[0, 2], expected at least 1 row");
}

}  // namespace
}  // namespace trireme::op::testing
