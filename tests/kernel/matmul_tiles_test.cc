// Products of bf16 on tiles: the same bits at every width, with a right factor that is rounded where it is
// packed, and results that go past the caches.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/kernel/runner.h"
#include "trireme/base/rng.h"
#include "trireme/kernel/cpu/simd/tiles.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"
#include "trireme/tensor/half.h"

namespace trireme::kernel::test {
namespace {

constexpr DType kLow = DType::kBF16, kFull = DType::kF32;

struct Sizes {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  Shape a() const { return transpose_a ? Shape{k, m} : Shape{m, k}; }
  Shape b() const { return transpose_b ? Shape{n, k} : Shape{k, n}; }
  std::string to_string() const {
    return fmt::format("{} x {} x {}, transposes {} {}", m, n, k, transpose_a, transpose_b);
  }
};

Tensor made(Philox& rng, const Shape& shape) {
  Tensor t = *Tensor::allocate(cpu_device(), {kFull, shape});
  for (float& v : t.values<float>()) v = 2 * rng.next_uniform() - 1;
  return t;
}
Tensor rounded(const Tensor& t) {
  Tensor out = *Tensor::allocate(cpu_device(), {kLow, t.shape()});
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i)
    out.data<BFloat16>()[i] = BFloat16(t.data<float>()[i]);
  return out;
}

const op::KernelRow* find_row(std::string_view op, std::string_view name) {
  for (const op::KernelRow& row : cpu_kernels())
    if (op == row.op && name == row.name) return &row;
  return nullptr;
}

// matmul of plain operands, or of formed ones where one of its dtypes is f32.
Tensor multiply(const Sizes& s, const Tensor& a, const Tensor& b, DType result, int width) {
  const bool plain = b.dtype() == kLow && result == kLow;
  const op::Attrs attrs{{"transpose_a", s.transpose_a}, {"transpose_b", s.transpose_b}};
  const op::Forms forms = op::parse_forms(plain ? "" : result == kFull ? "f32,f32>-" : "-,bf16>-").value();
  const std::vector<TensorType> types{a.type(), b.type()};
  const auto outputs = op::infer_types(op::kMatmul, types, attrs, forms).value();
  TR_CHECK(outputs[0].dtype == result);
  const op::KernelQuery q{op::kMatmul, types, outputs, attrs, width, forms};
  const op::KernelRow& row = *find_row("matmul", plain ? "tiles" : "product_tiles");
  TR_CHECK(applies(row, q));
  const std::vector<Tensor> in{a, b}, out{*Tensor::allocate(cpu_device(), outputs[0])};
  const std::size_t bytes = row.workspace_bytes(q);
  const Buffer workspace = *cpu_device().allocate(bytes);
  const auto state = row.prepare(q);
  const auto parallel = make_threads(width);
  op::KernelArgs args{in, out, attrs, {workspace.data(), bytes}, *parallel, state.get()};
  row.run(args);
  return out[0];
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.raw(), b.raw(), a.type().num_bytes()) == 0;
}

std::vector<Sizes> all_sizes() {
  std::vector<Sizes> all;
  for (const bool a : {false, true})
    for (const bool b : {false, true})
      for (const Sizes& s : {Sizes{65, 33, 200}, {300, 270, 700}, {33, 1500, 600}, {700, 20, 33}})
        all.push_back({s.m, s.n, s.k, a, b});
  return all;
}

TEST(MatmulTiles, GiveTheSameBitsAtEveryWidth) {
  if (tiles::amx() == nullptr) GTEST_SKIP() << "the processor has no tiles";
  for (const Sizes& s : all_sizes()) {
    SCOPED_TRACE(s.to_string());
    Philox rng(3);
    const Tensor a = rounded(made(rng, s.a())), b = made(rng, s.b()), low = rounded(b);
    for (const int width : {2, 3, 9, 16}) {
      EXPECT_TRUE(same_bits(multiply(s, a, low, kLow, 1), multiply(s, a, low, kLow, width))) << width;
      EXPECT_TRUE(same_bits(multiply(s, a, low, kFull, 1), multiply(s, a, low, kFull, width))) << width;
      EXPECT_TRUE(same_bits(multiply(s, a, b, kLow, 1), multiply(s, a, b, kLow, width))) << width;
    }
  }
}

TEST(MatmulTiles, RoundARightFactorAsACastDoesAndTheResultOnce) {
  if (tiles::amx() == nullptr) GTEST_SKIP() << "the processor has no tiles";
  for (const Sizes& s : all_sizes()) {
    SCOPED_TRACE(s.to_string());
    Philox rng(5);
    const Tensor a = rounded(made(rng, s.a())), b = made(rng, s.b());
    const Tensor want = multiply(s, a, rounded(b), kLow, 1);
    EXPECT_TRUE(same_bits(multiply(s, a, b, kLow, 1), want));
    EXPECT_TRUE(same_bits(rounded(multiply(s, a, rounded(b), kFull, 1)), want));
  }
}

// Small integers, so that every sum is exact.
TEST(MatmulTiles, WriteResultsThatAreLargerThanCaches) {
  if (tiles::amx() == nullptr) GTEST_SKIP() << "the processor has no tiles";
  const Sizes s{2901, 2899, 3, true, false};
  Tensor a = *Tensor::allocate(cpu_device(), {kFull, s.a()}),
         b = *Tensor::allocate(cpu_device(), {kFull, s.b()});
  for (std::int64_t i = 0; i < s.m * s.k; ++i) a.data<float>()[i] = static_cast<float>(i % 9 - 4);
  for (std::int64_t i = 0; i < s.n * s.k; ++i) b.data<float>()[i] = static_cast<float>(i % 7 - 3);
  const Tensor c = multiply(s, rounded(a), rounded(b), kFull, 2);
  for (std::int64_t row = 0; row < s.m; ++row)
    for (std::int64_t column = 0; column < s.n; ++column) {
      float want = 0;
      for (std::int64_t k = 0; k < s.k; ++k)
        want += a.data<float>()[k * s.m + row] * b.data<float>()[k * s.n + column];
      ASSERT_EQ(c.data<float>()[row * s.n + column], want) << row << ", " << column;
    }
}

TEST(MatmulTiles, LeaveSmallProductsAndBatchesToOthers) {
  const op::KernelRow& row = *find_row("matmul", "tiles");
  const auto applies = [&](const Shape& a, const Shape& b) {
    const Problem p(Case{"matmul", {a, b}, {}, kLow});
    return row.applicable(p.query(2));
  };
  EXPECT_FALSE(applies({20, 20}, {20, 20}));
  EXPECT_FALSE(applies({4, 100, 100}, {4, 100, 100}));
  EXPECT_FALSE(applies({300, 0}, {0, 300}));
  EXPECT_EQ(applies({4, 100, 100}, {100, 100}), tiles::amx() != nullptr);
}

}  // namespace
}  // namespace trireme::kernel::test
