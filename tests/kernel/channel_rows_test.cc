// Norms of matrices with a channel per column: bits, masks, digits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernel/runner.h"
#include "trireme/base/rng.h"
#include "trireme/kernel/cpu/simd/sets.h"
#include "trireme/tensor/half.h"

namespace trireme::kernel {
namespace {

using Floats = std::vector<float>;

Floats random(std::size_t n, std::uint64_t seed, float from = -1, float to = 1) {
  Philox rng(seed);
  Floats out(n);
  for (float& v : out) v = from + (to - from) * rng.next_uniform();
  return out;
}

// Rows in f32, or rounded to bf16.
class Image {
 public:
  Image(const Floats& values, bool low)
      : tensor_(*Tensor::allocate(cpu_device(), {low ? DType::kBF16 : DType::kF32, {std::ssize(values)}})),
        low_(low) {
    if (low)
      vector_loops().f32_to_bf16(values.data(), reinterpret_cast<std::uint16_t*>(tensor_.raw()),
                                 std::ssize(values));
    else
      std::copy(values.begin(), values.end(), tensor_.data<float>());
  }
  ConstRows from() const { return {tensor_.raw(), low_}; }
  MutableRows to() const { return {tensor_.raw(), low_}; }
  std::span<const std::byte> bytes() const { return {tensor_.raw(), tensor_.type().num_bytes()}; }

 private:
  Tensor tensor_;
  bool low_;
};

// Everything that a set of loops makes of some rows, as bytes.
std::vector<std::byte> all_results(const ChannelLoops& loops, std::int64_t rows, std::int64_t n, int lows) {
  const auto elems = static_cast<std::size_t>(rows * n), columns = static_cast<std::size_t>(n);
  const auto low = [&](int k) { return (lows >> k & 1) != 0; };
  const Image x(random(elems, 1), low(0)), dy(random(elems, 2), low(1)), second(random(elems, 3), low(2));
  const Image y(Floats(elems), low(3)), masked(Floats(elems), low(4)), dx(Floats(elems), low(5));
  const Floats gain = random(columns, 4), bias = random(columns, 5), mean = random(columns, 6),
               mean_d = random(columns, 7), mean_dot = random(columns, 8);
  std::vector<std::byte> out;
  const auto keep = [&](const auto& v) {
    const auto* bytes = reinterpret_cast<const std::byte*>(v.data());
    out.insert(out.end(), bytes, bytes + v.size() * sizeof v[0]);
  };
  Floats a(columns), b(columns), means(2 * columns), vars(2 * columns);
  loops.sums[low(0)](x.from().at, rows, n, a.data());
  keep(a);
  for (std::size_t part = 0; part < 2; ++part)
    loops.moments[low(0)](x.from().at, rows, n, means.data() + part * columns, vars.data() + part * columns);
  loops.join_moments(means.data(), vars.data(), 2, rows, 2 * rows, n, 0, n, a.data(), b.data());
  keep(a), keep(b);
  for (const bool adds : {false, true})
    for (const bool relu : {false, true}) {
      Normed to{.x = x.from(), .y = y.to(), .mean = mean.data(), .gain = gain.data(), .bias = bias.data()};
      if (adds) to.residual = second.from();
      to.relu = to.away = relu;
      loops.normalise(to, rows, n);
      keep(y.bytes());
    }
  for (int kind = 0; kind < 4; ++kind) {
    NormGrad of{.x = x.from(), .dy = dy.from(), .mean = mean.data(), .gain = gain.data()};
    of.mean_d = mean_d.data();
    of.mean_dot = mean_dot.data();
    of.dx = dx.to();
    of.away = kind != 1;
    if (kind == 1) of.bias = bias.data();
    if (kind > 1) of.y = y.from(), of.masked = masked.to();
    if (kind > 2) of.second = second.from();
    loops.grad_sums(of, rows, n, a.data(), b.data());
    loops.normalise_grad(of, rows, n);
    keep(a), keep(b), keep(masked.bytes()), keep(dx.bytes());
  }
  return out;
}

TEST(ChannelLoops, EveryInstructionSetGivesTheSameBits) {
  for (const std::int64_t n : {1, 16, 37, 1030})
    for (const int lows : {0, 1, 22, 41, 63})  // f32, mixtures, bf16
      EXPECT_EQ(all_results(channel_loops(), 23, n, lows), all_results(kBaselineChannels, 23, n, lows))
          << n << " columns, dtypes " << lows;
}

// The row that is chosen for f32 operands.
std::vector<Tensor> run_row(const std::string& op, const std::vector<Tensor>& in, std::vector<Tensor> out) {
  std::vector<TensorType> inputs, outputs;
  for (const Tensor& t : in) inputs.push_back(t.type());
  for (const Tensor& t : out) outputs.push_back(t.type());
  const op::OpDef& def = *op::find_op(op);
  const op::Attrs attrs = *op::complete_attrs(def, {});
  const op::KernelQuery query{def, inputs, outputs, attrs, 1};
  const auto choice = choose_cpu_kernel(query);
  EXPECT_EQ(choice->name(), "rows");
  std::vector<std::byte> workspace(choice->row->workspace_bytes(query));
  op::KernelArgs args{
      .inputs = in, .outputs = out, .attrs = attrs, .workspace = workspace, .parallel = op::serial()};
  choice->row->run(args);
  return out;
}
Tensor matrix(const Floats& values, std::int64_t columns) {
  return Tensor::from<float>(values, {std::ssize(values) / columns, columns});
}
Tensor vector(const Floats& values) { return Tensor::from<float>(values, {std::ssize(values)}); }

// With a gradient of ones, that of the bias counts.
TEST(NormRows, GradientsSeeWhatWasPositiveForwards) {
  constexpr std::int64_t kRows = 3000, kColumns = 21;
  const Floats none(kRows * kColumns), column(kColumns);
  const Tensor x = matrix(random(kRows * kColumns, 1), kColumns),
               ones = matrix(Floats(kRows * kColumns, 1), kColumns);
  const Tensor scale = vector(random(kColumns, 2)), bias = vector(random(kColumns, 3, -0.1F, 0.1F));
  const auto forward =
      run_row("batch_norm_relu", {x, scale, bias}, {matrix(none, kColumns), vector(column), vector(column)});
  const auto grads = run_row("batch_norm_relu_grad", {x, scale, bias, forward[1], forward[2], ones},
                             {matrix(none, kColumns), vector(column), vector(column)});
  for (std::int64_t c = 0; c < kColumns; ++c) {
    int positive = 0;
    for (std::int64_t r = 0; r < kRows; ++r) positive += forward[0].data<float>()[r * kColumns + c] > 0;
    EXPECT_EQ(grads[2].data<float>()[c], static_cast<float>(positive)) << c;
  }
}

TEST(NormRows, ASmallVarianceAboutALargeMeanKeepsItsDigits) {
  constexpr std::int64_t kRows = 4001, kColumns = 18;
  const Floats values = random(kRows * kColumns, 1, 999, 1001), column(kColumns);
  const auto out = run_row("batch_norm_relu", {matrix(values, kColumns), vector(column), vector(column)},
                           {matrix(Floats(values.size()), kColumns), vector(column), vector(column)});
  for (std::size_t c = 0; c < kColumns; ++c) {
    double mean = 0, var = 0;
    for (std::size_t r = 0; r < kRows; ++r) mean += static_cast<double>(values[r * kColumns + c]) / kRows;
    for (std::size_t r = 0; r < kRows; ++r)
      var += std::pow(static_cast<double>(values[r * kColumns + c]) - mean, 2) / kRows;
    EXPECT_NEAR(out[1].values<float>()[c], mean, 1e-4);
    EXPECT_NEAR(out[2].values<float>()[c], var, 1e-5);
  }
}

TEST(NormRows, NotANumberStaysInItsColumn) {
  constexpr std::int64_t kRows = 700, kColumns = 20;
  constexpr std::size_t kBad = 3;
  Floats values = random(kRows * kColumns, 1);
  values[500 * kColumns + kBad] = std::numeric_limits<float>::quiet_NaN();
  const Floats column(kColumns);
  const auto out =
      run_row("batch_norm_relu", {matrix(values, kColumns), vector(Floats(kColumns, 1)), vector(column)},
              {matrix(Floats(values.size()), kColumns), vector(column), vector(column)});
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(std::isnan(out[0].values<float>()[i]), i % kColumns == kBad) << i;
}

// Chunks depend on the shape alone.
TEST(NormRows, BitsDoNotDependOnTheWidth) {
  for (const test::Case& c : test::all_cases()) {
    const test::Problem problem(c);
    for (const op::KernelRow& row : cpu_kernels()) {
      if (row.name != std::string_view("rows") || !applies(row, problem.query(1))) continue;
      const test::Values one = test::Prepared(problem, row, 1).run(*test::make_backwards(1));
      for (const int width : {2, 5, 9})
        EXPECT_EQ(test::Prepared(problem, row, width).run(*test::make_backwards(width)), one)
            << c.to_string() << ", width " << width;
    }
  }
}

}  // namespace
}  // namespace trireme::kernel
