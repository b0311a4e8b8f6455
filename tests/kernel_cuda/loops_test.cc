// Elementwise loops, moved elements and rows by index in shapes that take the paths of large tensors: whole
// vectors, odd ends, tiles, several chunks and parts, addresses that are not aligned; and values at the
// edges.
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "tests/conformance/cases/cases.h"
#include "tests/conformance/harness.h"
#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/op/forms.h"
#include "trireme/op/ops.h"

namespace trireme::kernel::cuda::test {
namespace {

using op::testing::Ints;
using op::testing::one;
using op::testing::to_doubles;

// Halves between -4 and 4: sums and products of two are exact in every dtype.
Tensor grid(DType dtype, const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, shape});
  for (float& v : t.values<float>()) v = static_cast<float>(static_cast<int>(random() % 17) - 8) * 0.5F;
  return op::testing::converted(t, dtype);
}

// Few ids often, many seldom, some out of range.
Tensor ids(const Shape& shape, std::int64_t rows, unsigned seed, DType dtype = DType::kI64) {
  std::mt19937 random(seed);
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kI64, shape});
  for (std::int64_t& v : t.values<std::int64_t>()) {
    const double u = static_cast<double>(random()) / 0x1.0p32;
    v = static_cast<std::int64_t>(u * u * u * static_cast<double>(rows + 2)) - 1;
  }
  return op::testing::converted(t, dtype);
}

class CudaLoops : public ::testing::Test {
 protected:
  void SetUp() override { TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why); }

  static std::vector<Tensor> run(const op::OpDef& def, const std::vector<Tensor>& in, const op::Attrs& attrs,
                                 const op::Forms& forms = op::plain_forms()) {
    const OnDevice on(def, op::testing::types_of(in), attrs, /*tf32=*/false, forms);
    EXPECT_TRUE(on.status().ok()) << def.name << ": " << on.status().to_string();
    if (!on.status().ok()) return {};
    const auto got = on.run(in);
    EXPECT_TRUE(got.ok()) << def.name << ": " << got.status().to_string();
    return got.ok() ? *got : std::vector<Tensor>();
  }

  static void expect_bits(const op::OpDef& def, const std::vector<Tensor>& in, const op::Attrs& attrs = {},
                          std::string_view forms = "") {
    const op::Forms own = *op::parse_forms(forms);
    const auto got = run(def, in, attrs, own);
    const auto want = *op::testing::run_op(def, in, *op::complete_attrs(def, attrs), own);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      op::testing::expect_same_bits(
          got[i], want[i],
          fmt::format("{} {} output {}", def.name, in.empty() ? "" : in[0].type().to_string(), i));
  }

  // Relative to the largest element; NaN and infinities where the reference has them.
  static void expect_near(const op::OpDef& def, const std::vector<Tensor>& in, double most,
                          const op::Attrs& attrs = {}) {
    const auto got = run(def, in, attrs), again = run(def, in, attrs);
    const auto want = *op::testing::run_op(def, in, *op::complete_attrs(def, attrs));
    ASSERT_EQ(got.size(), want.size());
    const auto a = to_doubles(got[0]), b = to_doubles(want[0]);
    double largest = 1;
    for (const double v : b)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    for (std::size_t k = 0; k < b.size(); ++k) {
      const bool same = std::isnan(b[k]) ? std::isnan(a[k]) : a[k] == b[k];
      ASSERT_TRUE(same || std::abs(a[k] - b[k]) <= most * largest)
          << def.name << " " << in[0].type().to_string() << ", element " << k << ": got " << a[k]
          << ", expected " << b[k];
    }
    op::testing::expect_same_bits(again[0], got[0], std::string(def.name) + ", again");
  }
};

constexpr DType kMoved[] = {DType::kF32, DType::kBF16, DType::kU8, DType::kI64};

TEST_F(CudaLoops, BroadcastsGiveTheBitsOfTheReference) {
  const std::pair<Shape, Shape> shapes[] = {
      {{64, 24, 7, 7}, {24, 1, 1}},  {{300, 40}, {40}},         {{300, 40}, {300, 1}}, {{300, 41}, {41}},
      {{33, 1, 9}, {12, 1}},         {{5, 6, 7, 8}, {6, 1, 8}}, {{}, {1000}},          {{3001}, {3001}},
      {{2, 3, 4, 5, 16}, {4, 1, 16}}};
  unsigned seed = 1;
  for (const auto& [a, b] : shapes)
    for (const DType d : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32, DType::kU8}) {
      expect_bits(op::kAdd, {grid(d, a, seed), grid(d, b, seed + 1)});
      expect_bits(op::kLess, {grid(d, b, seed), grid(d, a, seed + 1)});
      ++seed;
    }
  for (const Shape& x : {Shape{9, 5, 13, 13}, Shape{7, 24, 8, 8}, Shape{500, 40}, Shape{33, 7}})
    for (const DType d : {DType::kF32, DType::kBF16, DType::kI32})
      expect_bits(op::kBiasAdd, {grid(d, x, seed), grid(d, {x[1]}, seed + 1)});
}

TEST_F(CudaLoops, LargeTensorsAreDoneToTheLastElement) {
  for (const std::int64_t n : {std::int64_t{1} << 21, (std::int64_t{1} << 21) + 8193}) {
    expect_bits(op::kRelu, {grid(DType::kF32, {n}, 3)});
    expect_bits(op::kMul, {grid(DType::kF32, {n}, 4), grid(DType::kF32, {n}, 5)});
  }
  const Tensor wide = grid(DType::kBF16, {4100, 1031}, 6);
  expect_bits(op::kCast, {wide}, one("dtype", DType::kF32));
  expect_bits(op::kFill, {}, {{"value", 1.5}, {"dtype", DType::kBF16}, {"shape", Ints{2000003}}});
}

TEST_F(CudaLoops, AddressesNeedNoAlignment) {
  for (const DType d : {DType::kF32, DType::kBF16, DType::kU8}) {
    const std::int64_t n = 5000;
    const Tensor a = grid(d, {n + 3}, 7), b = grid(d, {n + 3}, 8);
    const std::vector<TensorType> types(2, {d, {n}}), outs(1, {d, {n}});
    const auto row = choose_cuda_kernel({op::kMul, types, outs, {}, *gpu().device});
    ASSERT_TRUE(row.ok());
    const auto kernel = (*row)->make({op::kMul, types, outs, {}, *gpu().device});
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const std::size_t size = dtype_size(d);
    const auto part = [&](const Tensor& t, std::size_t skip) {
      return Tensor(t.buffer(), {d, {n}}, skip * size);
    };
    const Tensor on_a = to_device(a), on_b = to_device(b), on_y = to_device(a);
    const std::vector<Tensor> in{part(on_a, 1), part(on_b, 3)}, out{part(on_y, 2)};
    CudaStream stream(*gpu().device);
    ASSERT_TRUE((*kernel)->enqueue({in, out, nullptr, stream}).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    const auto want = to_doubles((*op::testing::run_op(op::kMul, {part(a, 1), part(b, 3)}, {}))[0]);
    const auto before = to_doubles(a), got = to_doubles(to_host(on_y));
    for (std::size_t k = 0; k < got.size(); ++k)
      ASSERT_EQ(got[k], k < 2 || k >= 2 + want.size() ? before[k] : want[k - 2]) << dtype_name(d) << " " << k;
  }
}

// A product that feeds a sum is not fused with it, and 16-bit results are rounded at every step.
TEST_F(CudaLoops, GroupsGiveTheBitsOfTheirMembers) {
  const char* text =
      R"({"inputs":3,"steps":[["mul",[0,1]],["add",[3,2]],["scale",[4],{"factor":0.3}],["sub",[5,0]],)"
      R"(["greater",[6,1]],["select",[7,6,4]]],"outputs":[8,6]})";
  for (const DType d : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    std::vector<Tensor> in{grid(d, {70, 48}, 9), grid(d, {48}, 10), grid(d, {70, 1}, 11)};
    for (Tensor& t : in)
      t = (*op::testing::run_op(op::kScale, {t}, *op::complete_attrs(op::kScale, one("factor", 0.7123))))[0];
    expect_bits(op::kFused, in, one("program", std::string(text)));
  }
}

TEST_F(CudaLoops, ElementsAreMovedAsByTheReference) {
  const auto order = [](Ints o) { return one("order", std::move(o)); };
  for (const DType d : kMoved) {
    expect_bits(op::kTranspose, {grid(d, {130, 70}, 1)});
    expect_bits(op::kTranspose, {grid(d, {5, 70, 130}, 1)}, order({0, 2, 1}));
    expect_bits(op::kTranspose, {grid(d, {3, 33, 65, 8}, 2)}, order({0, 2, 3, 1}));
    expect_bits(op::kTranspose, {grid(d, {3, 9, 65, 8}, 2)}, order({2, 0, 3, 1}));
    expect_bits(op::kTranspose, {grid(d, {40, 9, 16}, 3)}, order({1, 0, 2}));
    expect_bits(op::kTranspose, {grid(d, {4, 10, 3, 12}, 3)}, order({3, 1, 2, 0}));
    expect_bits(op::kReverse, {grid(d, {6, 7, 24}, 4)}, one("axes", Ints{0, 2}));
    expect_bits(op::kTile, {grid(d, {6, 5, 16}, 5)}, one("times", Ints{2, 3, 2}));
    expect_bits(op::kBroadcastTo, {grid(d, {6, 1, 16}, 6)}, one("shape", Ints{3, 6, 5, 16}));
    expect_bits(op::kPad, {grid(d, {6, 5, 16}, 7)},
                {{"low", Ints{1, 0, 16}}, {"high", Ints{0, 2, 3}}, {"value", 2.0}});
    expect_bits(op::kSplit, {grid(d, {30, 96}, 8)},
                {{"axis", std::int64_t{1}}, {"sizes", Ints{32, 48, 15, 1}}});
    expect_bits(op::kSplit, {grid(d, {30, 40}, 8)}, one("sizes", Ints{7, 0, 23}));
    expect_bits(op::kConcat, {grid(d, {9, 32}, 1), grid(d, {9, 16}, 2), grid(d, {9, 5}, 3)},
                one("axis", std::int64_t{1}));
    const op::Attrs box{{"begin", Ints{2, 0, 16}}, {"end", Ints{0, -1, 32}}, {"step", Ints{1, 2, 1}}};
    expect_bits(op::kSlice, {grid(d, {7, 9, 48}, 9)}, box);
    op::Attrs grad = box;
    grad.set("shape", Ints{7, 9, 48});
    expect_bits(op::kSliceGrad, {grid(d, {5, 4, 16}, 9)}, grad);
    expect_bits(op::kGather, {grid(d, {50, 48}, 10), ids({7, 40}, 50, 1)});
    expect_bits(op::kGather, {grid(d, {6, 50, 5}, 10), ids({40}, 50, 2, DType::kI32)},
                one("axis", std::int64_t{1}));
  }
  expect_bits(op::kEmbedding, {grid(DType::kBF16, {50, 40}, 11), ids({9, 30}, 50, 3)});
  expect_bits(op::kOneHot, {ids({900}, 30, 4)}, {{"depth", std::int64_t{30}}, {"dtype", DType::kBF16}});
  expect_bits(op::kRange, {}, {{"start", 0.1}, {"limit", 700.0}, {"step", 0.3}, {"dtype", DType::kBF16}});
  expect_bits(op::kConstant, {}, {{"data", std::string(400, '5')}, {"shape", Ints{50}}});
}

TEST_F(CudaLoops, RowsAreAddedUpByTheirIds) {
  struct Case {
    Shape y;
    int axis;
    std::int64_t count;
  };
  for (const Case& c : {Case{{50, 24}, 0, 3000}, Case{{3, 5}, 0, 5000}, Case{{2000, 48}, 0, 900},
                        Case{{6, 20, 8}, 1, 700}, Case{{4, 9}, 1, 70}, Case{{1, 16}, 0, 4097}}) {
    const std::int64_t rows = c.y[c.axis];
    const Tensor at = ids({c.count}, rows, 5);
    Shape updates = c.y;
    updates.set(c.axis, c.count);
    const op::Attrs attrs{{"axis", std::int64_t{c.axis}},
                          {"shape", Ints(c.y.dims().begin(), c.y.dims().end())}};
    for (const DType d : {DType::kI32, DType::kU8, DType::kI64})
      expect_bits(op::kScatterAdd, {grid(d, updates, 6), at}, attrs);
    // Halves add up exactly in f32, whatever the order.
    expect_bits(op::kScatterAdd, {grid(DType::kF32, updates, 7), at}, attrs);
    expect_bits(op::kScatterAdd, {grid(DType::kBF16, updates, 8), at}, attrs);
    if (c.axis == 0)
      expect_bits(op::kEmbeddingGrad, {grid(DType::kBF16, updates, 9), at},
                  one("shape", attrs.get_ints("shape")));
  }
}

TEST_F(CudaLoops, ChannelsAndRunningSumsAreAddedUp) {
  for (const Shape& x : {Shape{3000, 40}, Shape{4000, 24}, Shape{70, 5, 13, 13}, Shape{64, 8, 32, 32},
                         Shape{2, 3}, Shape{1, 2000}, Shape{500, 3, 64}})
    for (const DType d : {DType::kF32, DType::kBF16, DType::kI32, DType::kU8, DType::kF64})
      expect_bits(op::kBiasGrad, {grid(d, x, 12)});
  for (const bool reverse : {false, true})
    for (const DType d : {DType::kF32, DType::kI32, DType::kU8}) {
      expect_bits(op::kCumsum, {grid(d, {3, 1000}, 13)}, one("reverse", reverse));
      expect_bits(op::kCumsum, {grid(d, {7, 300, 5}, 14)}, {{"axis", std::int64_t{1}}, {"reverse", reverse}});
    }
}

// Forms of operands: the kernel reads and writes other dtypes than the op has.
TEST_F(CudaLoops, OperandsAreCastOnTheWay) {
  const auto narrow = [](const Shape& shape) { return grid(DType::kBF16, shape, 20); };
  const auto wide = [](const Shape& shape) {  // with bits that 16 cannot hold
    return (*op::testing::run_op(op::kScale, {grid(DType::kF32, shape, 21)},
                                 *op::complete_attrs(op::kScale, one("factor", 0.7123))))[0];
  };
  for (const Shape& x : {Shape{3000, 40}, Shape{70, 5, 13, 13}, Shape{6, 8, 32, 32}, Shape{33, 7}}) {
    expect_bits(op::kBiasGrad, {narrow(x)}, {}, "f32>-");
    expect_bits(op::kBiasAdd, {narrow(x), wide({x[1]})}, {}, "f32,->-");
    expect_bits(op::kBiasAdd, {narrow(x), narrow({x[1]})}, {}, "f32,f32>bf16");
  }
  for (const Shape& y : {Shape{50, 24}, Shape{50, 5}}) {
    const Tensor at = ids({600}, 50, 22);
    const op::Attrs shape = one("shape", Ints{y[0], y[1]});
    expect_bits(op::kEmbeddingGrad, {narrow({600, y[1]}), at}, shape, "f32,->-");
    expect_bits(op::kEmbedding, {narrow(y), at}, {}, "f32,->-");
    expect_bits(op::kEmbedding, {wide(y), at}, {}, "-,->bf16");
  }
  const op::Attrs turned = one("order", Ints{0, 2, 1}), last = one("axis", std::int64_t{1});
  for (const Shape& x : {Shape{3, 70, 130}, Shape{4, 6, 3}}) {
    expect_bits(op::kTranspose, {narrow(x)}, turned, "f32>-");
    expect_bits(op::kTranspose, {wide(x)}, turned, "->bf16");
  }
  expect_bits(op::kConcat, {narrow({9, 16}), wide({9, 24})}, last, "f32,->-");
  expect_bits(op::kConcat, {narrow({9, 16}), wide({9, 5})}, last, "f32,->bf16");
  op::Attrs cut = last;
  cut.set("sizes", Ints{16, 8});
  expect_bits(op::kSplit, {wide({9, 24})}, cut, "->bf16,-");
  expect_bits(op::kSlice, {narrow({9, 24})}, {{"begin", Ints{0, 8}}, {"end", Ints{0, 16}}}, "f32>-");
}

// Random ops have no forms, but the kernel takes two dtypes all the same.
TEST_F(CudaLoops, DropoutCastsOnTheWay) {
  const op::Attrs attrs = *op::complete_attrs(op::kDropout, one("stream", std::int64_t{3}));
  for (const std::int64_t n : {1000, 1001}) {
    const std::vector<std::int64_t> one_key{5}, samples{7, 1, 4};
    std::vector<Tensor> in{grid(DType::kBF16, {3, n}, 23), Tensor::from<std::int64_t>(one_key, {}),
                           Tensor::from<std::int64_t>(one_key, {}), Tensor::from<std::int64_t>(samples, {3})};
    const std::vector<TensorType> types = op::testing::types_of(in), made{{DType::kF32, {3, n}}};
    const CudaQuery query{op::kDropout, types, made, attrs, *gpu().device};
    const auto row = choose_cuda_kernel(query);
    ASSERT_TRUE(row.ok() && (*row)->adaptable);
    const auto kernel = (*row)->make(query);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    std::vector<Tensor> on;
    for (const Tensor& t : in) on.push_back(to_device(t));
    const std::vector<Tensor> out{to_device(grid(DType::kF32, {3, n}, 24))};
    CudaStream stream(*gpu().device);
    ASSERT_TRUE((*kernel)->enqueue({on, out, nullptr, stream}).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    in[0] = op::testing::converted(in[0], DType::kF32);
    op::testing::expect_same_bits(to_host(out[0]), (*op::testing::run_op(op::kDropout, in, attrs))[0],
                                  "dropout");
  }
}

// Beyond 2^31 elements indices have 64 bits. Made only: nobody has the memory.
TEST(CudaTexts, OfHugeTensorsCompile) {
  TR_NEEDS_GPU(gpu().device != nullptr ? "" : gpu().why);
  const std::int64_t n = (std::int64_t{1} << 30) + 3;
  const auto expect_made = [](const op::OpDef& def, const std::vector<TensorType>& in, op::Attrs attrs = {}) {
    const OnDevice on(def, in, attrs);
    EXPECT_TRUE(on.status().ok()) << def.name << ": " << on.status().to_string();
  };
  const TensorType matrix{DType::kBF16, {4, n}}, row{DType::kBF16, {n}}, few{DType::kI64, {5}};
  expect_made(op::kAdd, {matrix, row});
  expect_made(op::kRelu, {matrix});
  expect_made(op::kTranspose, {matrix});
  expect_made(op::kSlice, {matrix}, {{"begin", Ints{0, 1}}, {"end", Ints{0, 0}}});
  expect_made(op::kConcat, {matrix, matrix}, one("axis", std::int64_t{1}));
  expect_made(op::kGather, {matrix, few});
  expect_made(op::kBroadcastTo, {row}, one("shape", Ints{4, n}));
}

// ---- Values at the edges

Tensor edges() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> v{0.0,
                        -0.0,
                        0.5,
                        -0.5,
                        1.5,
                        2.5,
                        -1.5,
                        1e-8,
                        -1e-8,
                        1e-45,
                        3.4e38,
                        1e300,
                        -1e300,
                        kInf,
                        -kInf,
                        std::numeric_limits<double>::quiet_NaN(),
                        254.9,
                        255.5,
                        -0.9,
                        2147483647.0,
                        2147483647.5,
                        -2147483648.5,
                        9.3e18,
                        -9.3e18,
                        65504,
                        65520,
                        65519.99,
                        1.0 + 0x1.0p-8,
                        1.0 + 0x1.0p-8 + 0x1.0p-40,
                        1.0 + 0x1.0p-11 + 0x1.0p-40,
                        88.8,
                        -88.8,
                        10,
                        -10,
                        104,
                        1e-40};
  return Tensor::from<double>(v, {static_cast<std::int64_t>(v.size())});
}

TEST_F(CudaLoops, CastsConvertEveryValueAsTheReference) {
  constexpr DType kAll[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                            DType::kI64, DType::kI32, DType::kU8,   DType::kBool};
  const std::vector<std::int64_t> whole{0,
                                        1,
                                        -1,
                                        255,
                                        256,
                                        257,
                                        65519,
                                        65521,
                                        (1LL << 24) + 1,
                                        (1LL << 31) - 1,
                                        -(1LL << 31),
                                        (1LL << 40) + 1,
                                        std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min()};
  const Tensor integers = Tensor::from<std::int64_t>(whole, {static_cast<std::int64_t>(whole.size())});
  for (const DType from : kAll)
    for (const DType to : kAll)
      for (const Tensor& values : {edges(), integers}) {
        const Tensor x = op::testing::converted(values, from);
        // What a NaN looks like inside is nobody's business.
        if (is_floating(to))
          expect_near(op::kCast, {x}, 0, one("dtype", to));
        else
          expect_bits(op::kCast, {x}, one("dtype", to));
      }
}

TEST_F(CudaLoops, FunctionsHaveTheEdgesOfTheReference) {
  const op::OpDef* ops[] = {
      &op::kAbs,  &op::kCeil,  &op::kCos,       &op::kErf,   &op::kExp,      &op::kExpm1,      &op::kFloor,
      &op::kLog,  &op::kLog1p, &op::kNeg,       &op::kRelu,  &op::kRound,    &op::kRsqrt,      &op::kSigmoid,
      &op::kSign, &op::kSilu,  &op::kSoftplus,  &op::kSqrt,  &op::kSquare,   &op::kTanh,       &op::kSin,
      &op::kElu,  &op::kGelu,  &op::kLeakyRelu, &op::kIsNan, &op::kIsFinite, &op::kReciprocal, &op::kClip};
  for (const op::OpDef* def : ops)
    for (const DType d : {DType::kF32, DType::kF64}) {
      const Tensor all = op::testing::converted(edges(), d);
      // One element at a time: the error is relative to it.
      for (std::int64_t k = 0; k < all.shape()[0]; k += 1)
        expect_near(*def, {op::testing::fresh({all.slice(0, k, k + 1)})[0]}, d == DType::kF32 ? 1e-6 : 1e-14);
    }
  const Tensor x = op::testing::converted(edges(), DType::kF32);
  const Tensor column = *x.reshape({x.shape()[0], 1});
  for (const op::OpDef* def : {&op::kMaximum, &op::kMinimum, &op::kEqual, &op::kNotEqual, &op::kLess,
                               &op::kGreaterEqual, &op::kAdd, &op::kMul, &op::kDiv})
    expect_near(*def, {x, column}, 0);
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
