// Every conformance case of the op table on the GPU against the reference, in every dtype. Without a GPU the
// texts are compiled all the same.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/conformance/harness.h"
#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/kernel/cuda/rows.h"

namespace trireme::kernel::cuda::test {
namespace {

using op::testing::OpCase;

constexpr DType kAllDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                                DType::kI64, DType::kI32, DType::kU8,   DType::kBool};

class CudaOps : public op::testing::OpConformance {
 protected:
  void SetUp() override { TR_NEEDS_GPU(gpu().device != nullptr ? "" : gpu().why); }
  // With the dtypes that input 0 may have; one where it is fixed.
  std::vector<DType> dtypes() const {
    if (c().inputs.empty() || !op::testing::is_typed(c().inputs[0].fill)) return {DType::kF32};
    std::vector<DType> out;
    for (const DType d : kAllDTypes)
      if (op::contains(def().dtypes, d)) out.push_back(d);
    if (!gpu().computes()) std::erase_if(out, [](DType d) { return d != DType::kF32 && d != DType::kBF16; });
    return out;
  }
  // What the op writes by its reference, in f64 where it can be had.
  std::vector<Tensor> expected(const std::vector<Tensor>& inputs) const {
    std::vector<Tensor> wide;
    const bool can = op::contains(def().dtypes, DType::kF64) &&
                     is_floating(inputs.empty() ? DType::kU8 : inputs[0].dtype());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      wide.push_back(can && op::testing::is_typed(c().inputs[i].fill)
                         ? op::testing::converted(inputs[i], DType::kF64)
                         : inputs[i]);
    return written(op::testing::fresh(wide));
  }
};

double tolerance_of(DType dtype, double half_slack) {
  if (dtype == DType::kBF16) return 0x1.0p-8 * half_slack;
  if (dtype == DType::kF16) return 0x1.0p-11 * half_slack;
  if (dtype == DType::kF64) return 1e-9;
  return is_floating(dtype) ? 2e-5 : 0;
}
// Wider results of an op that stores 16-bit values on the way are no better than these.
double tolerance_of(DType out, DType op, double half_slack) {
  const double own = tolerance_of(out, half_slack);
  return half_slack > 1 && is_floating(out) ? std::max(own, tolerance_of(op, half_slack)) : own;
}

// cuDNN rounds states and gates to 16 bits at every step.
double slack_of(const CudaRow& row, const OpCase& c) {
  return row.make == &make_recurrent_dnn ? 8 : c.half_slack;
}

TEST_P(CudaOps, ComesToWhatTheReferenceComesTo) {
  if (!def().reference || is_left_out(def())) return;
  for (const DType dtype : dtypes()) {
    const auto inputs = op::testing::make_inputs(c(), dtype);
    const OnDevice on(def(), op::testing::types_of(inputs), c().attrs);
    ASSERT_TRUE(on.status().ok()) << dtype_name(dtype) << ": " << on.status().to_string();
    if (!gpu().computes()) continue;
    const auto want = expected(inputs);
    const auto got = on.run(inputs), again = on.run(inputs);
    ASSERT_TRUE(got.ok()) << dtype_name(dtype) << ": " << got.status().to_string();
    ASSERT_TRUE(again.ok());
    ASSERT_EQ(got->size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::string what = fmt::format("{} by {}, output {}", dtype_name(dtype), on.row()->name, i);
      op::testing::expect_close(op::testing::to_doubles((*got)[i]), op::testing::to_doubles(want[i]),
                                tolerance_of((*got)[i].dtype(), dtype, slack_of(*on.row(), c())), what);
      op::testing::expect_same_bits((*again)[i], (*got)[i], what + ", again");
    }
  }
}

TEST_P(CudaOps, RunsInPlaceWhereItSaysSo) {
  if (!def().has(op::kInPlaceOk) || !gpu().computes()) return;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto inputs =
        op::testing::make_inputs(c(), op::contains(def().dtypes, dtype) ? dtype : DType::kF32);
    const TensorType out = out_types(inputs)[0];
    if (out.dtype != inputs[0].dtype() || out.num_bytes() != inputs[0].type().num_bytes()) return;
    const OnDevice on(def(), op::testing::types_of(inputs), c().attrs);
    if (!on.status().ok()) return;
    const auto apart = on.run(inputs), same = on.run(inputs, true);
    ASSERT_TRUE(apart.ok() && same.ok());
    op::testing::expect_same_bits((*same)[0], (*apart)[0], "in place");
  }
}

// Also where nothing is computed: in every dtype, not only in those whose texts are compiled here.
TEST_P(CudaOps, HasAKernelForEveryDtype) {
  if (!def().reference || is_left_out(def())) return;
  const bool typed = !c().inputs.empty() && op::testing::is_typed(c().inputs[0].fill);
  for (const DType dtype : kAllDTypes) {
    if (typed ? !op::contains(def().dtypes, dtype) : dtype != DType::kF32) continue;
    const auto types = op::testing::types_of(op::testing::make_inputs(c(), dtype));
    const op::Attrs own = attrs();
    const auto outputs = *op::infer_types(def(), types, own);
    const auto chosen = choose_cuda_kernel({def(), types, outputs, own, *gpu().device});
    EXPECT_TRUE(chosen.ok()) << chosen.status().to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Table, CudaOps, op::testing::all_cases(), op::testing::name_of_case);

// What is left out is named, is at most a tenth, and is refused by name.
TEST(CudaTable, LeavesOutOnlyTheOpsThatTheTestsName) {
  TR_NEEDS_GPU(gpu().device != nullptr ? "" : gpu().why);
  std::set<std::string_view> all, left_out;
  for (const OpCase& c : op::testing::op_cases()) {
    if (!c.def->reference) continue;
    all.insert(c.def->name);
    if (!is_left_out(*c.def)) continue;
    left_out.insert(c.def->name);
    const OnDevice on(*c.def, op::testing::types_of(op::testing::make_inputs(c, DType::kF32)), c.attrs);
    EXPECT_EQ(on.status().code(), Code::kNotFound) << c.def->name;
    EXPECT_NE(on.status().message().find(fmt::format("op {} has no CUDA kernel", c.def->name)),
              std::string::npos);
  }
  EXPECT_LE(10 * left_out.size(), all.size());
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
