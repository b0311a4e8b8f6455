// lstm_kept and its gradient on tiles: as close as bf16 allows where weights are as small as those of a
// model, and the same bits on any number of threads.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernel/runner.h"
#include "trireme/base/rng.h"
#include "trireme/op/forms.h"
#include "trireme/op/sequence/lstm_kept.h"
#include "trireme/tensor/half.h"

namespace trireme::kernel::test {
namespace {

constexpr DType kLow = DType::kBF16, kFull = DType::kF32;

struct Lstm {
  Shape x;
  std::int64_t units;
  std::vector<Tensor> in;  // of lstm_kept, bf16

  Lstm(const Shape& shape, std::int64_t h) : x(shape), units(h) {
    Philox rng(3);
    const float size = 1 / std::sqrt(static_cast<float>(h));
    const Shape state{x[1], h};
    in = {made(rng, x, 1),
          made(rng, state, 1),
          made(rng, state, 1),
          made(rng, {4 * h, x[2]}, size),
          made(rng, {4 * h, h}, size),
          made(rng, {4 * h}, size),
          made(rng, {4 * h}, size)};
  }
  static Tensor made(Philox& rng, const Shape& shape, float size) {
    Tensor t = *Tensor::allocate(cpu_device(), {kLow, shape});
    for (BFloat16& v : t.values<BFloat16>()) v = BFloat16(size * (2 * rng.next_uniform() - 1));
    return t;
  }
};

Tensor wide(const Tensor& t) {
  Tensor out = *Tensor::allocate(cpu_device(), {kFull, t.shape()});
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i)
    out.data<float>()[i] = static_cast<float>(t.data<BFloat16>()[i]);
  return out;
}

// By the row `tiles`, or by the reference where width is 0.
std::vector<Tensor> run(const op::OpDef& def, const op::Forms& forms, const std::vector<Tensor>& in,
                        int width) {
  std::vector<TensorType> types;
  for (const Tensor& t : in) types.push_back(t.type());
  const op::Attrs attrs;
  const auto made = op::infer_types(def, types, attrs, forms).value();
  std::vector<Tensor> out;
  for (const TensorType& t : made) out.push_back(*Tensor::allocate(cpu_device(), t));
  const op::KernelQuery q{def, types, made, attrs, std::max(width, 1), forms};
  op::KernelFn fn = def.reference;
  std::size_t bytes = def.reference_workspace(types, attrs);
  for (const op::KernelRow& row : cpu_kernels())
    if (width > 0 && def.name == row.op && std::string_view(row.name) == "tiles") {
      TR_CHECK(applies(row, q));
      fn = row.run;
      bytes = row.workspace_bytes(q);
    }
  const Buffer workspace = *cpu_device().allocate(bytes + 64);
  const auto parallel = make_threads(std::max(width, 1));
  op::KernelArgs args{in, out, attrs, {workspace.data(), bytes}, *parallel};
  fn(args);
  return out;
}

double error(const Tensor& got, const Tensor& want) {
  double square = 0, of = 0;
  for (std::int64_t i = 0; i < want.shape().num_elems(); ++i) {
    const double b = want.data<float>()[i],
                 a = got.dtype() == kLow ? static_cast<float>(got.data<BFloat16>()[i]) : got.data<float>()[i];
    square += (a - b) * (a - b);
    of += b * b;
  }
  return std::sqrt(square / of);
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].raw(), b[i].raw(), a[i].type().num_bytes()) != 0) return false;
  return true;
}

op::Forms gradient_forms() {
  return op::parse_forms("f32,f32,f32,f32,f32,f32,f32,f32,f32,f32>bf16,bf16,bf16,-,-,-,-").value();
}

bool declines() {
  const Lstm l({1, 1, 1}, 1);
  std::vector<TensorType> types;
  for (const Tensor& t : l.in) types.push_back(t.type());
  const auto made = op::infer_types(op::kLstmKept, types, {}).value();
  for (const op::KernelRow& row : cpu_kernels())
    if (std::string_view(row.op) == "lstm_kept" && std::string_view(row.name) == "tiles")
      return !row.applicable({op::kLstmKept, types, made, {}, 1});
  return true;
}

const std::vector<std::pair<Shape, std::int64_t>> kSizes{
    {{6, 5, 9}, 11}, {{7, 20, 48}, 40}, {{40, 32, 64}, 96}, {{3, 70, 33}, 128}};

TEST(LstmTiles, ComeAsCloseAsBf16Allows) {
  if (declines()) GTEST_SKIP() << "the processor has no units for bf16";
  for (const auto& [x, units] : kSizes) {
    SCOPED_TRACE(x.to_string());
    const Lstm l(x, units);
    std::vector<Tensor> full;
    for (const Tensor& t : l.in) full.push_back(wide(t));
    const std::vector<Tensor> want = run(op::kLstmKept, {}, full, 0), got = run(op::kLstmKept, {}, l.in, 2);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_LT(error(got[i], want[i]), 0.005) << "output " << i;
    Philox rng(9);
    const Shape state{x[1], units};
    const std::vector<Tensor> back{l.in[0],
                                   l.in[1],
                                   l.in[3],
                                   l.in[4],
                                   got[0],
                                   got[3],
                                   got[4],
                                   Lstm::made(rng, want[0].shape(), 1),
                                   Lstm::made(rng, state, 1),
                                   Lstm::made(rng, state, 1)};
    full.clear();
    for (const Tensor& t : back) full.push_back(wide(t));
    const auto right = run(op::kLstmKeptGrad, {}, full, 0),
               made = run(op::kLstmKeptGrad, gradient_forms(), back, 2);
    for (std::size_t i = 0; i < right.size(); ++i)
      EXPECT_LT(error(made[i], right[i]), 0.006) << "gradient " << i;
  }
}

TEST(LstmTiles, GiveTheSameBitsOnAnyNumberOfThreads) {
  if (declines()) GTEST_SKIP() << "the processor has no units for bf16";
  for (const auto& [x, units] : std::vector<std::pair<Shape, std::int64_t>>{{{4, 70, 250}, 250}}) {
    const Lstm l(x, units);
    const auto one = run(op::kLstmKept, {}, l.in, 1);
    const std::vector<Tensor> back{l.in[0], l.in[1], l.in[3], l.in[4], one[0],
                                   one[3],  one[4],  one[0],  one[1],  one[2]};
    const auto gradients = run(op::kLstmKeptGrad, gradient_forms(), back, 1);
    for (const int width : {2, 3, 9}) {
      EXPECT_TRUE(same_bits(one, run(op::kLstmKept, {}, l.in, width))) << width;
      EXPECT_TRUE(same_bits(gradients, run(op::kLstmKeptGrad, gradient_forms(), back, width))) << width;
    }
  }
}

}  // namespace
}  // namespace trireme::kernel::test
