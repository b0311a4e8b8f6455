// The attribute `method` of the convolutions chooses among rows.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernel/runner.h"
#include "trireme/kernel/kernel.h"

namespace trireme::kernel::test {
namespace {

constexpr const char* kOps[] = {"conv2d", "conv2d_input_grad", "conv2d_filter_grad"};

// A convolution of `channels` channels into 32 of two or more images, taps x taps.
Case conv_case(const std::string& op, std::int64_t channels, const std::string& method,
               std::int64_t taps = 3) {
  using Ints = std::vector<std::int64_t>;
  const Ints x{3, channels, 9, 14}, filter{32, channels, taps, taps};
  const Shape y{3, 32, 9, 14};
  op::Attrs attrs{{"method", method}, {"pad_h", taps / 2}, {"pad_w", taps / 2}};
  if (op == "conv2d") return {op, {Shape(x), Shape(filter)}, attrs};
  const bool input = op == "conv2d_input_grad";
  attrs.set(input ? "input_shape" : "filter_shape", input ? x : filter);
  return {op, {Shape(input ? filter : x), y}, attrs};
}

std::string row_for(const std::string& op, std::int64_t channels, const std::string& method) {
  return choose_cpu_kernel(Problem(conv_case(op, channels, method)).query(1))->name();
}

bool is_gemm(const std::string& row) { return row == "blas" || row == "onednn_gemm"; }
bool is_winograd(const std::string& row) { return row.ends_with("winograd"); }

TEST(ConvMethod, TheAttributeDecidesTheKindOfRow) {
  for (const std::string op : kOps) {
    for (const std::int64_t channels : {1, 32}) {
      EXPECT_TRUE(is_gemm(row_for(op, channels, "im2col"))) << op << " " << channels;
      const std::string direct = row_for(op, channels, "direct");
      EXPECT_FALSE(is_gemm(direct) || is_winograd(direct)) << op << " " << channels;
      const std::string free = row_for(op, channels, "auto");
      EXPECT_TRUE(free == row_for(op, channels, "im2col") || free == direct) << free;
      const std::string winograd = row_for(op, channels, "winograd");
      EXPECT_TRUE(is_winograd(winograd) || winograd == "reference") << winograd;
    }
  }
}

// The values of a method, whatever row that is here.
Values values_by(const Case& c, int width) {
  const Problem problem(c);
  const KernelChoice choice = *choose_cpu_kernel(problem.query(width));
  if (choice.row == nullptr) return run_reference(problem, DType::kF32);
  return Prepared(problem, *choice.row, width).run(*make_backwards(width));
}

// Inputs are at most 1, so an element is at most the number of its terms.
double terms(const Case& c) {
  const Problem p(c);
  return p.def->cost(p.inputs, p.outputs, p.attrs).flops / 2 /
         static_cast<double>(p.outputs[0].shape.num_elems());
}

TEST(ConvMethod, EveryMethodGivesTheSameWithinItsRounding) {
  const std::pair<const char*, double> methods[] = {
      {"direct", 1.2e-7}, {"im2col", 1.2e-7}, {"winograd", 2e-6}};
  for (const std::string op : kOps) {
    for (const std::int64_t taps : {3, 5}) {
      const Values want = run_reference(Problem(conv_case(op, 32, "auto", taps)), DType::kF64);
      for (const auto& [method, rounding] : methods) {
        const Case c = conv_case(op, 32, method, taps);
        const Values got = values_by(c, 2);
        double worst = 0;
        for (std::size_t i = 0; i < want[0].size(); ++i)
          worst = std::max(worst, std::abs(got[0][i] - want[0][i]));
        EXPECT_LE(worst, rounding * terms(c)) << op << " " << taps << " by " << method;
      }
    }
  }
}

}  // namespace
}  // namespace trireme::kernel::test
