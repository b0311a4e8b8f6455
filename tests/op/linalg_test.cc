// Matrices: values from their definitions, edges, errors.
#include "tests/op/values.h"
#include "trireme/base/rng.h"

namespace trireme::op::testing {
namespace {

Tensor random_matrices(const Shape& shape) {
  Philox rng(3);
  Doubles v;
  for (std::int64_t i = 0; i < shape.num_elems(); ++i) v.push_back(2 * rng.next_double() - 1);
  return f64(v, shape);
}

TEST(Matmul, MultipliesBatchesByTheRulesOfNumPy) {
  const Tensor a = f64({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}), b = f64({1, 1, 0, 1}, {2, 2});
  EXPECT_EQ(values(kMatmul, {a, b}), (Doubles{1, 3, 3, 7, 5, 11, 7, 15}));
  EXPECT_EQ(values(kMatmul, {b, a}), (Doubles{4, 6, 3, 4, 12, 14, 7, 8}));
  EXPECT_EQ(values(kMatmul, {a, a}, {{"transpose_b", true}}), (Doubles{5, 11, 11, 25, 61, 83, 83, 113}));
  EXPECT_EQ(shape_of(kMatmul, {random_matrices({3, 1, 2, 4}), random_matrices({5, 4, 6})}),
            (Shape{3, 5, 2, 6}));
}

TEST(Matmul, SumsSixteenBitFloatsInF32) {
  // 256 + 1 + 1 in bf16: 258 when rounded once, 256 when rounded after every addition.
  const Tensor a = as(DType::kBF16, f64({256, 1, 1}, {1, 3})), b = as(DType::kBF16, f64({1, 1, 1}, {3, 1}));
  const Tensor c = (*run_op(kMatmul, {a, b}, {}))[0];
  EXPECT_EQ(values(kCast, {c}, {{"dtype", DType::kF64}}), Doubles{258});
}

TEST(Matmul, CostsWhatTheSurveySays) {
  const std::vector<TensorType> in{f32_type({8, 5, 1000}), f32_type({1000, 7})}, out{f32_type({8, 5, 7})};
  const auto cost = kMatmul.cost(in, out, *complete_attrs(kMatmul, {}));
  EXPECT_EQ(cost.flops, 2.0 * 8 * 5 * 7 * 1000);
  EXPECT_EQ(cost.work, 8.0 * 5 * 7 * 1000);
  EXPECT_EQ(cost.depth, 10);  // ceil(log2 1000)
}

TEST(Inverse, TimesTheMatrixIsTheIdentity) {
  const Tensor x = random_matrices({3, 4, 4}), y = (*run_op(kInverse, {x}, {}))[0];
  Doubles identity;
  for (int i = 0; i < 48; ++i) identity.push_back(i % 16 % 5 == 0 ? 1 : 0);
  expect_near(values(kMatmul, {x, y}), identity, 1e-10);
  // A zero on the diagonal needs rows exchanged.
  EXPECT_EQ(values(kInverse, {f64({0, 2, 4, 0}, {2, 2})}), (Doubles{0, 0.25, 0.5, 0}));
}

TEST(Inverse, OfASingularMatrixIsNotFinite) {
  for (const Doubles& x : {Doubles{1, 2, 2, 4}, Doubles{0, 0, 0, 0}}) {
    bool finite = true;
    for (const double v : values(kInverse, {f64(x, {2, 2})})) finite = finite && std::isfinite(v);
    EXPECT_FALSE(finite);
  }
}

TEST(Determinant, IsTheSignedVolume) {
  EXPECT_EQ(values(kDeterminant, {f64({0, 2, 4, 0}, {2, 2})}), Doubles{-8});
  EXPECT_EQ(values(kDeterminant, {f64({1, 2, 2, 4, 3, 0, 0, 2}, {2, 2, 2})}), (Doubles{0, 6}));
  // A permutation of three rows that takes two exchanges.
  EXPECT_EQ(values(kDeterminant, {f64({0, 1, 0, 0, 0, 1, 1, 0, 0}, {3, 3})}), Doubles{1});
  EXPECT_EQ(values(kDeterminant, {f64({}, {0, 0})}), Doubles{1});
}

TEST(Linalg, SaysWhatIsWrongWithACall) {
  expect_refused(
      kMatmul, {f32_type({3}), f32_type({3, 4})}, {},
      "[op matmul] a: got f32[3], expected a matrix (2 dimensions) or a batch of them; reshape a vector");
  expect_refused(kMatmul, {f32_type({2, 3, 4}), f32_type({3, 4, 5})}, {},
                 "[op matmul] batches of a and b: [shape] shapes do not broadcast: got [2] and [3]");
  expect_refused(kMatmul, {f32_type({2, 3}), f32_type({2, 3})}, {},
                 "[op matmul] inner dimensions: got f32[2, 3]");
  const std::int64_t big = std::int64_t{1} << 40;
  expect_refused(kMatmul, {f32_type({big, 1}), f32_type({1, big})}, {},
                 "[op matmul] the result: [shape] too many elements");
  for (const OpDef* d : {&kInverse, &kDeterminant})
    expect_refused(*d, {f32_type({2, 3})}, {},
                   fmt::format("[op {}] x: got f32[2, 3], expected square matrices", d->name));
}

}  // namespace
}  // namespace trireme::op::testing
