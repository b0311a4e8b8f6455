// Rows, columns and channels of the sizes that take several blocks, several parts or more than the registers
// hold; values that are not finite. (The conformance cases are small.)
#include <cmath>
#include <limits>

#include "tests/conformance/cases/cases.h"
#include "tests/conformance/harness.h"
#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/nn/layer_norm_grad_sum.h"
#include "trireme/op/nn/residual_layer_norm.h"
#include "trireme/op/nn/softmax_cross_entropy_step.h"
#include "trireme/op/ops.h"

namespace trireme::kernel::cuda::test {
namespace {

using op::testing::axes;
using op::testing::Fill;
using op::testing::Input;
using op::testing::OpCase;

void add_reductions(std::vector<OpCase>& t) {
  const auto add = [&](const op::OpDef& def, const Shape& x, std::vector<std::int64_t> over) {
    t.push_back({&def, fmt::format("{} {}", def.name, x.to_string()), {{Fill::kReal, x}}, axes(over, false)});
  };
  add(op::kSum, {5, 70000}, {1});
  add(op::kSum, {70001, 5}, {0});
  add(op::kSum, {3, 4000, 33}, {1});
  add(op::kSum, {3, 4000, 64}, {1});
  add(op::kSum, {9, 40, 300}, {0, 2});
  add(op::kSum, {4, 3, 2, 5, 7}, {0, 2, 4});
  add(op::kSum, {4, 3, 2, 5, 8}, {1, 3});
  add(op::kSum, {300003}, {});
  add(op::kMean, {64, 1000}, {1});
  add(op::kMax, {7, 20000}, {1});
  add(op::kMin, {20000, 7}, {0});
  add(op::kLogsumexp, {3, 30000}, {1});
  add(op::kLogsumexp, {30000, 3}, {0});
  for (const Shape& x : {Shape{7, 20000}, Shape{20000, 7}})
    t.push_back({&op::kArgmax,
                 fmt::format("argmax {}", x.to_string()),
                 {{Fill::kInts, x}},
                 {{"axis", std::int64_t{x[0] == 7 ? 1 : 0}}}});
}

void add_rows(std::vector<OpCase>& t) {
  for (const std::int64_t n : {100, 1000, 9000, 70000}) {
    const Shape x{n < 9000 ? 37 : 3, n};
    const Input logits{Fill::kReal, x}, labels{Fill::kLabels, {x[0]}}, weights{Fill::kWeights, {x[0]}};
    const std::string note = fmt::format("{}", n);
    t.push_back({&op::kSoftmax, note, {logits}});
    t.push_back({&op::kLogSoftmax, note, {logits}});
    t.push_back({&op::kSoftmaxCrossEntropy, note, {logits, labels, weights}});
    t.push_back({&op::kSoftmaxCrossEntropyGrad, note, {logits, labels, weights, {Fill::kReal, {x[0]}}}});
    t.push_back({&op::kSoftmaxCrossEntropyStep, note, {logits, labels, weights, {Fill::kReal, {x[0]}}}});
    t.push_back({&op::kCorrect, note, {logits, labels, weights}});
    t.push_back({&op::kSquaredError, note, {logits, logits, weights}});
    const Input row{Fill::kReal, {n}}, stats{Fill::kPositive, {x[0]}};
    t.push_back({&op::kLayerNorm, note, {logits, row, row}});
    t.push_back({&op::kResidualLayerNorm, note, {logits, logits, row, row, row}});
    t.push_back({&op::kLayerNormGrad, note, {logits, row, stats, stats, logits}});
    t.push_back(
        {&op::kLayerNormGradSum, note, {logits, row, stats, stats, logits, logits}, {{"copy", DType::kF32}}});
  }
  const Input x{Fill::kReal, {2500, 768}}, row{Fill::kReal, {768}}, stats{Fill::kPositive, {2500}};
  t.push_back({&op::kLayerNormGrad, "many rows", {x, row, stats, stats, x}});
  t.push_back({&op::kLayerNormGradSum, "many rows", {x, row, stats, stats, x, x}, {{"copy", DType::kF32}}});
  t.push_back({&op::kSoftmax, "down a column", {{Fill::kReal, {5, 70, 33}}}, {{"axis", std::int64_t{1}}}});
}

void add_channels(std::vector<OpCase>& t) {
  for (const Shape& shape : {Shape{6, 5, 14, 14}, Shape{40, 3, 56, 56}, Shape{30, 4, 7, 7}, Shape{3000, 40},
                             Shape{500, 3}, Shape{70, 300}, Shape{900, 512}}) {
    const Input x{Fill::kReal, shape}, c{Fill::kReal, {shape[1]}}, var{Fill::kPositive, {shape[1]}};
    const std::string note = shape.to_string();
    t.push_back({&op::kBatchNorm, note, {x, c, c}});
    t.push_back({&op::kBatchNormGrad, note, {x, c, c, var, x}});
    t.push_back({&op::kBatchNormInference, note, {x, c, c, c, var}});
    t.push_back({&op::kBatchNormRelu, note, {x, c, c}});
    t.push_back({&op::kBatchNormRelu, note + " residual", {x, c, c, x}});
    t.push_back({&op::kBatchNormReluGrad, note, {x, c, c, c, var, x}});
    t.push_back({&op::kBatchNormAddReluGrad, note, {x, c, c, var, x, x}});
    t.push_back({&op::kBatchNormAddReluGrad, note + " of two", {x, c, c, var, x, x, x}});
  }
}

void add_variables(std::vector<OpCase>& t) {
  const Input w{Fill::kReal, {100003}}, s{Fill::kPositive, {100003}}, none{Fill::kPositive, {0}};
  const Input lr{Fill::kUnit, {}}, step{Fill::kLabels, {}};
  t.push_back({&op::kApplyAdamw, "", {w, s, s, none, w, lr, step}});
  t.push_back({&op::kApplySgd, "", {w, w, lr}, {{"weight_decay", 0.01}}});
  t.push_back({&op::kApplyMomentum, "", {w, s, w, lr}, {{"weight_decay", 0.01}}});
  t.push_back({&op::kApplyAdagrad, "", {w, s, w, lr, step}});
  t.push_back({&op::kApplyRmsprop, "", {w, s, s, s, w, lr}, {{"centered", true}, {"momentum", 0.9}}});
  t.push_back({&op::kApplyRunningVariance, "", {w, s, {Fill::kPositive, {}}}});
  t.push_back({&op::kApplyLars, "", {w, s, w, lr}, {{"trust", 0.5}}});
  t.push_back({&op::kAssignAdd, "", {w, w}});
}

void add_draws(std::vector<OpCase>& t) {
  const Input key{Fill::kInts, {}}, ids{Fill::kIds, {9}};
  const op::Attrs stream{{"stream", std::int64_t{3}}};
  for (const std::int64_t n : {1000, 1001, 1002})
    t.push_back({&op::kDropout, fmt::format("{}", n), {{Fill::kReal, {9, n}}, key, key, ids}, stream});
  t.push_back({&op::kPermutation, "", {key, key}, {{"n", std::int64_t{50000}}, {"stream", std::int64_t{3}}}});
  t.push_back({&op::kShuffle, "", {{Fill::kReal, {3000, 24}}, key, key}, stream});
}

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> t;
    add_reductions(t);
    add_rows(t);
    add_channels(t);
    add_variables(t);
    add_draws(t);
    return t;
  }();
  return all;
}

class CudaRows : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why); }
};

// What the op writes by its reference, on typed inputs in f64.
std::vector<Tensor> expected(const OpCase& c, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> wide;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    wide.push_back(op::testing::is_typed(c.inputs[i].fill) ? op::testing::converted(inputs[i], DType::kF64)
                                                           : op::testing::fresh({inputs[i]})[0]);
  std::vector<Tensor> all = *op::testing::run_op(*c.def, wide, *op::complete_attrs(*c.def, c.attrs));
  for (const int i : c.def->mutated_inputs) all.push_back(wide[static_cast<std::size_t>(i)]);
  return all;
}

double distance(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, size = 1e-30;
  for (std::size_t k = 0; k < want.size(); ++k) {
    if (std::isnan(want[k]) && std::isnan(got[k])) continue;
    error += (got[k] - want[k]) * (got[k] - want[k]);
    size += want[k] * want[k];
  }
  return std::sqrt(error / size);
}

TEST_P(CudaRows, ComeToWhatTheReferenceComesTo) {
  const OpCase& c = cases()[static_cast<std::size_t>(GetParam())];
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto inputs = op::testing::make_inputs(c, dtype);
    const OnDevice on(*c.def, op::testing::types_of(inputs), c.attrs);
    ASSERT_TRUE(on.status().ok()) << on.status().to_string();
    const auto got = on.run(inputs), again = on.run(inputs);
    ASSERT_TRUE(got.ok() && again.ok()) << got.status().to_string();
    const auto want = expected(c, inputs);
    ASSERT_EQ(got->size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::string what = fmt::format("{} {} {}, output {}", c.def->name, c.note, dtype_name(dtype), i);
      const DType out = (*got)[i].dtype();
      const bool wide = out == DType::kF32 && (dtype == DType::kF32 || i < 3);  // later: a copy in f32
      const double most = !is_floating(out) ? 0 : wide ? 2e-5 : 8e-3;
      EXPECT_LE(distance(op::testing::to_doubles((*got)[i]), op::testing::to_doubles(want[i])), most) << what;
      op::testing::expect_same_bits((*again)[i], (*got)[i], what + ", again");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaRows, ::testing::Range(0, static_cast<int>(cases().size())));

// Plain sums, products, quotients and roots are rounded one by one, as on the host.
TEST_P(CudaRows, StepsHaveTheBitsOfTheReference) {
  const OpCase& c = cases()[static_cast<std::size_t>(GetParam())];
  const bool plain = !c.def->mutated_inputs.empty() && c.def != &op::kApplyLars;
  const bool raw = c.def == &op::kApplyAdamw;  // powers of beta are the host's library's
  if (!plain) return;
  op::Attrs attrs = *op::complete_attrs(*c.def, c.attrs);
  if (raw) attrs.set("bias_correction", false);
  const auto inputs = op::testing::make_inputs(c, DType::kF32);
  const OnDevice on(*c.def, op::testing::types_of(inputs), attrs);
  const auto got = on.run(inputs);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  const auto want = op::testing::fresh(inputs);
  ASSERT_TRUE(op::testing::run_op(*c.def, want, attrs).ok());
  for (std::size_t i = 0; i < c.def->mutated_inputs.size(); ++i)
    op::testing::expect_same_bits((*got)[i + 1], want[static_cast<std::size_t>(c.def->mutated_inputs[i])],
                                  fmt::format("{} {}, input {}", c.def->name, c.note, i));
}

// Nothing is allocated: the texts of tensors with more than 2^31 elements have indices of 64 bits.
TEST(CudaRowTexts, OfHugeTensorsCompile) {
  TR_NEEDS_GPU(gpu().device != nullptr ? "" : gpu().why);
  const TensorType x{DType::kBF16, {3 << 20, 1024}}, image{DType::kBF16, {1 << 12, 64, 112, 112}};
  const TensorType c{DType::kBF16, {64}}, scalar{DType::kI64, {}}, ids{DType::kI64, {3 << 20}};
  const auto compiles = [](const op::OpDef& def, const std::vector<TensorType>& in, const op::Attrs& attrs) {
    const OnDevice on(def, in, attrs);
    EXPECT_TRUE(on.status().ok()) << on.status().to_string();
  };
  compiles(op::kSum, {x}, axes({0}, false));
  compiles(op::kSum, {x}, axes({1}, false));
  compiles(op::kArgmax, {x}, {});
  compiles(op::kBatchNorm, {image, c, c}, {});
  compiles(op::kBatchNormGrad, {image, c, c, c, image}, {});
  compiles(op::kBatchNormInference, {image, c, c, c, c}, {});
  compiles(op::kBatchNormRelu, {image, c, c, image}, {});
  compiles(op::kBatchNormReluGrad, {image, c, c, c, c, image}, {});
  compiles(op::kBatchNormAddReluGrad, {image, c, c, c, image, image, image}, {});
  compiles(op::kDropout, {x, scalar, scalar, ids}, {{"stream", std::int64_t{1}}});
}

// ---- Operands of other dtypes

// An op in f32 with the inputs and outputs of the masks in bf16.
struct Mixed {
  OpCase c;
  unsigned narrow_in, narrow_out;
};

std::vector<Mixed> mixed() {
  const Input x{Fill::kReal, {300, 104}}, row{Fill::kReal, {104}}, stats{Fill::kPositive, {300}};
  const Input image{Fill::kReal, {6, 5, 4, 6}}, c{Fill::kReal, {5}}, var{Fill::kPositive, {5}};
  const Input wide{Fill::kPositive, {104}}, labels{Fill::kLabels, {300}}, weights{Fill::kWeights, {300}};
  return {
      {{&op::kLayerNorm, "", {x, row, row}}, 0, 1},
      {{&op::kLayerNorm, "", {x, row, row}}, 7, 0},
      {{&op::kLayerNormGrad, "", {x, row, stats, stats, x}}, 16, 0},
      {{&op::kLayerNormGrad, "", {x, row, stats, stats, x}}, 1, 7},
      {{&op::kBatchNorm, "", {image, c, c}}, 1, 1},
      {{&op::kBatchNorm, "", {x, row, row}}, 1, 1},
      {{&op::kBatchNormGrad, "", {image, c, c, var, image}}, 17, 1},
      {{&op::kBatchNormGrad, "", {x, row, row, wide, x}}, 16, 1},
      {{&op::kBatchNormInference, "", {image, c, c, c, var}}, 1, 1},
      {{&op::kBatchNormInference, "", {x, row, row, row, wide}}, 1, 0},
      {{&op::kBatchNormRelu, "", {x, row, row}}, 1, 1},
      {{&op::kBatchNormRelu, "", {x, row, row, x}}, 9, 1},
      {{&op::kBatchNormRelu, "", {image, c, c, image}}, 1, 1},
      {{&op::kBatchNormReluGrad, "", {x, row, row, row, wide, x}}, 33, 1},
      {{&op::kBatchNormReluGrad, "", {image, c, c, c, var, image}}, 33, 1},
      {{&op::kBatchNormAddReluGrad, "", {x, row, row, wide, x, x}}, 49, 1},
      {{&op::kBatchNormAddReluGrad, "", {x, row, row, wide, x, x, x}}, 113, 1},
      {{&op::kBatchNormAddReluGrad, "", {image, c, c, var, image, image, image}}, 1, 1},
      {{&op::kSoftmaxCrossEntropy, "", {x, labels, weights}}, 1, 0},
      {{&op::kSoftmaxCrossEntropyGrad, "", {x, labels, weights, stats}}, 1, 1},
      {{&op::kSoftmaxCrossEntropyGrad, "", {x, labels, weights, stats}}, 0, 1},
      {{&op::kCorrect, "", {x, labels, weights}}, 1, 0},
      {{&op::kSum, "", {x}, axes({1}, false)}, 1, 0},
      {{&op::kMean, "", {x}, axes({0}, false)}, 1, 0},
      {{&op::kLogsumexp, "", {x}, axes({0}, false)}, 0, 1},
  };
}

class CudaMixed : public CudaRows {};

TEST_P(CudaMixed, ComeToWhatCastsAroundTheOpComeTo) {
  const Mixed m = mixed()[static_cast<std::size_t>(GetParam())];
  auto in = op::testing::make_inputs(m.c, DType::kF32);
  op::Forms forms = op::forms_of(in.size(), static_cast<std::size_t>(m.c.def->num_outputs));
  for (std::size_t i = 0; i < in.size(); ++i) {
    if ((m.narrow_in >> i & 1U) == 0) continue;
    forms.inputs[i].dtype = DType::kF32;
    in[i] = op::testing::converted(in[i], DType::kBF16);
  }
  for (std::size_t i = 0; i < forms.outputs.size(); ++i)
    if ((m.narrow_out >> i & 1U) != 0) forms.outputs[i].dtype = DType::kBF16;
  const OnDevice on(*m.c.def, op::testing::types_of(in), m.c.attrs, /*tf32=*/false, forms);
  ASSERT_TRUE(on.status().ok()) << on.status().to_string();
  const auto got = on.run(in);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  const auto want = *op::testing::run_op(*m.c.def, in, m.c.attrs, forms);
  ASSERT_EQ(got->size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ((*got)[i].type(), want[i].type());
    const double most = want[i].dtype() == DType::kF32 ? 2e-5 : 1e-3;  // few roundings fall to the other side
    EXPECT_LE(distance(op::testing::to_doubles((*got)[i]), op::testing::to_doubles(want[i])), most)
        << m.c.def->name << ", output " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaMixed, ::testing::Range(0, static_cast<int>(mixed().size())));

// ---- Values that are not finite

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CudaValues : public ::testing::Test {
 protected:
  void SetUp() override { TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why); }
  // The op on the GPU and by its reference: the same numbers, NaN where it has NaN.
  static void expect_as_reference(const op::OpDef& def, const std::vector<Tensor>& in, op::Attrs attrs = {}) {
    const OnDevice on(def, op::testing::types_of(in), attrs);
    ASSERT_TRUE(on.status().ok()) << on.status().to_string();
    const auto got = on.run(in);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    const auto want = *op::testing::run_op(def, in, *op::complete_attrs(def, attrs));
    const auto a = op::testing::to_doubles((*got)[0]), b = op::testing::to_doubles(want[0]);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (std::isnan(b[k]) || std::isinf(b[k]))
        EXPECT_TRUE(std::isnan(b[k]) ? std::isnan(a[k]) : a[k] == b[k])
            << def.name << " " << k << ": " << a[k];
      else
        EXPECT_NEAR(a[k], b[k], 1e-5 * std::max(1.0, std::abs(b[k]))) << def.name << " " << k;
    }
  }
};

// Rows: plain, -inf among numbers, -inf only, +inf, NaN in front, NaN behind, ties.
Tensor odd_rows() {
  const std::vector<float> values{1, 2, 3,    4, -kInf, 0, -kInf, 1,    -kInf, -kInf, -kInf, -kInf, 0, kInf,
                                  1, 2, kNan, 5, 1,     2, 1,     kNan, 7,     2,     3,     3,     3, 3};
  return Tensor::from<float>(values, {7, 4});
}

TEST_F(CudaValues, NotFiniteAreReducedAsByTheReference) {
  for (const op::OpDef* def : {&op::kSum, &op::kMax, &op::kMin, &op::kLogsumexp}) {
    expect_as_reference(*def, {odd_rows()}, axes({1}, false));
    expect_as_reference(*def, {odd_rows()}, axes({0}, false));
  }
  for (const op::OpDef* def : {&op::kArgmax, &op::kArgmin}) expect_as_reference(*def, {odd_rows()});
  for (const op::OpDef* def : {&op::kSoftmax, &op::kLogSoftmax}) expect_as_reference(*def, {odd_rows()});
}

TEST_F(CudaValues, BadLabelsAndOddLogitsGiveTheLossesOfTheReference) {
  const std::vector<std::int64_t> labels{0, 1, 2, 3, 1, 9, -1};
  const std::vector<float> weights{1, 2, 1, 1, 1, 1, 0}, ones(7, 1.0F);
  const std::vector<Tensor> in{odd_rows(), Tensor::from<std::int64_t>(labels, {7}),
                               Tensor::from<float>(weights, {7})};
  expect_as_reference(op::kSoftmaxCrossEntropy, in);
  expect_as_reference(op::kCorrect, in);
  std::vector<Tensor> with_d = in;
  with_d.push_back(Tensor::from<float>(ones, {7}));
  expect_as_reference(op::kSoftmaxCrossEntropyGrad, with_d);
}

TEST_F(CudaValues, OneInfiniteElementOfManyTensorsIsFound) {
  for (const std::size_t where : {std::size_t{0}, std::size_t{150}, std::size_t{299}, std::size_t{300}}) {
    std::vector<Tensor> in;
    for (std::size_t i = 0; i < 300; ++i) {
      std::vector<float> values(i % 40, 1.0F);
      values.push_back(i == where ? kNan : 2.0F);
      in.push_back(Tensor::from<float>(values, {static_cast<std::int64_t>(values.size())}));
    }
    expect_as_reference(op::kAllFinite, in);
  }
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
