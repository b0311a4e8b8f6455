// The attribute `method` of the convolutions chooses among rows.
#include <gtest/gtest.h>

#include "tests/kernel/runner.h"
#include "trireme/kernel/kernel.h"

namespace trireme::kernel::test {
namespace {

// The row that serves a 3x3 convolution of `channels` channels by `method`.
std::string row_for(const std::string& op, std::int64_t channels, const std::string& method) {
  using Ints = std::vector<std::int64_t>;
  const Ints x{2, channels, 8, 8}, filter{16, channels, 3, 3};
  const Shape y{2, 16, 6, 6};
  if (op == "conv2d")
    return choose_cpu_kernel(Problem({op, {Shape(x), Shape(filter)}, {{"method", method}}}).query(1))->name();
  const bool input = op == "conv2d_input_grad";
  const Problem problem({op,
                         {Shape(input ? filter : x), y},
                         {{"method", method}, {input ? "input_shape" : "filter_shape", input ? x : filter}}});
  return choose_cpu_kernel(problem.query(1))->name();
}

bool is_gemm(const std::string& row) { return row == "blas" || row == "onednn_gemm"; }

TEST(ConvMethod, Im2colMeansTheMatrixProductAndDirectNeverDoes) {
  for (const std::string op : {"conv2d", "conv2d_input_grad", "conv2d_filter_grad"}) {
    for (const std::int64_t channels : {1, 16}) {
      EXPECT_TRUE(is_gemm(row_for(op, channels, "im2col"))) << op << " " << channels;
      EXPECT_FALSE(is_gemm(row_for(op, channels, "direct"))) << op << " " << channels;
      const std::string free = row_for(op, channels, "auto");
      EXPECT_TRUE(free == row_for(op, channels, "im2col") || free == row_for(op, channels, "direct")) << free;
    }
  }
}

}  // namespace
}  // namespace trireme::kernel::test
