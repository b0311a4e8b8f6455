// Products, convolutions and attention on the GPU: every row that applies, not only the first, in shapes that
// the libraries have engines for; weights at odd addresses. Without a GPU the rows are made, so their texts
// compile.
#include <cmath>

#include "tests/conformance/op_cases.h"
#include "tests/kernel/runner.h"
#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/tensor/half.h"

namespace trireme::kernel::cuda::test {
namespace {

using op::testing::to_doubles;

using kernel::test::Case;
using kernel::test::Problem;
using Ints = std::vector<std::int64_t>;

constexpr DType kFloatTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF64};

void add_products(std::vector<Case>& out, DType dtype) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const op::Attrs attrs{{"transpose_a", a}, {"transpose_b", b}};
      out.push_back(
          {"matmul", {a ? Shape{65, 130} : Shape{130, 65}, b ? Shape{33, 65} : Shape{65, 33}}, attrs, dtype});
      out.push_back({"matmul",
                     {a ? Shape{3, 24, 40} : Shape{3, 40, 24}, b ? Shape{17, 24} : Shape{24, 17}},
                     attrs,
                     dtype});
    }
  }
  out.push_back({"matmul", {{64, 128}, {128, 64}}, {}, dtype});
  out.push_back({"matmul", {{2, 1, 33, 20}, {3, 20, 9}}, {}, dtype});
  out.push_back({"matmul", {{1, 300}, {300, 1}}, {}, dtype});
  for (const bool relu : {false, true}) {
    out.push_back({"matmul_bias_act", {{37, 50}, {50, 24}, {24}}, {{"relu", relu}}, dtype});
    out.push_back({"matmul_bias_act", {{37, 50}, {50, 23}, {23}}, {{"relu", relu}}, dtype});
    out.push_back({"matmul_bias_act", {{3, 0}, {0, 5}, {5}}, {{"relu", relu}}, dtype});
  }
}

// Input channels, image, output channels, taps, stride, padding, groups.
void add_conv(std::vector<Case>& out, DType dtype, const Ints& v) {
  const std::int64_t side = (v[1] + 2 * v[5] - v[3]) / v[4] + 1;
  const op::Attrs window{
      {"stride_h", v[4]}, {"stride_w", v[4]}, {"pad_h", v[5]}, {"pad_w", v[5]}, {"groups", v[6]}};
  const Ints x{2, v[0], v[1], v[1]}, filter{v[2], v[0] / v[6], v[3], v[3]};
  const Shape y{2, v[2], side, side};
  op::Attrs input = window, own = window, relu = window;
  input.set("input_shape", x);
  own.set("filter_shape", filter);
  relu.set("relu", true);
  out.push_back({"conv2d", {Shape(x), Shape(filter)}, window, dtype});
  out.push_back({"conv2d_input_grad", {Shape(filter), y}, input, dtype});
  out.push_back({"conv2d_filter_grad", {Shape(x), y}, own, dtype});
  out.push_back({"conv2d_transpose", {y, Shape(filter)}, window, dtype});
  out.push_back({"conv2d_bias_act", {Shape(x), Shape(filter), {v[2]}}, window, dtype});
  out.push_back({"conv2d_bias_act", {Shape(x), Shape(filter), {v[2]}}, relu, dtype});
}

void add_attention(std::vector<Case>& out, DType dtype) {
  const auto add = [&](const Ints& s, bool causal) {  // queries, keys, features of keys and of values
    const Shape q{2, 3, s[0], s[2]}, k{2, 3, s[1], s[2]}, v{2, 3, s[1], s[3]}, y{2, 3, s[0], s[3]};
    out.push_back({"attention", {q, k, v}, {{"causal", causal}}, dtype});
    out.push_back({"attention_grad", {q, k, v, y}, {{"causal", causal}, {"scale", 0.2}}, dtype});
  };
  for (const bool causal : {false, true}) {
    add({128, 128, 64, 64}, causal);
    add({200, 128, 64, 64}, causal);
    add({64, 256, 32, 32}, causal);
    add({70, 90, 16, 24}, causal);
    add({33, 65, 20, 12}, causal);
  }
}

void add_packed_attention(std::vector<Case>& out, DType dtype) {
  const auto add = [&](std::int64_t tokens, std::int64_t heads, std::int64_t depth) {
    const Shape qkv{2, tokens, 3 * heads * depth}, y{2, tokens, heads * depth}, stats{2, heads, tokens};
    for (const bool causal : {false, true}) {
      const op::Attrs attrs{{"heads", heads}, {"causal", causal}};
      out.push_back({"attention_qkv", {qkv}, attrs, dtype});
      out.push_back({"attention_qkv_grad", {qkv, y, stats, y}, attrs, dtype, {{2, {.dtype = DType::kF32}}}});
    }
  };
  add(128, 3, 64);
  add(200, 2, 32);
  add(70, 3, 16);
  add(33, 2, 20);
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const DType dtype : kFloatTypes) {
    add_products(out, dtype);
    add_conv(out, dtype, {3, 35, 16, 7, 2, 3, 1});
    add_conv(out, dtype, {16, 14, 24, 3, 1, 1, 1});
    add_conv(out, dtype, {24, 9, 16, 1, 2, 0, 1});
    add_conv(out, dtype, {8, 11, 8, 3, 1, 1, 4});
    add_attention(out, dtype);
    add_packed_attention(out, dtype);
  }
  return out;
}

double most_distance(DType dtype) {
  if (dtype == DType::kBF16) return 8e-3;
  if (dtype == DType::kF16) return 1e-3;
  return dtype == DType::kF64 ? 1e-10 : 1e-5;
}

double distance(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, size = 1e-30;
  for (std::size_t k = 0; k < want.size(); ++k) {
    error += (got[k] - want[k]) * (got[k] - want[k]);
    size += want[k] * want[k];
  }
  return std::sqrt(error / size);
}

// On the device, `shift` bytes behind where memory starts.
Tensor placed(const Tensor& host, std::size_t shift) {
  CudaDevice& device = *gpu().device;
  const std::size_t bytes = host.type().num_bytes();
  const Buffer memory = *device.allocate(bytes + shift);
  EXPECT_TRUE(
      device.copy(host.buffer().slice(host.offset_bytes(), bytes), memory.slice(shift, bytes), nullptr).ok());
  return Tensor(memory, host.type(), shift);
}

Result<std::vector<Tensor>> run(const CudaKernel& kernel, const Problem& p, std::size_t shift) {
  std::vector<Tensor> in, out, results;
  for (const Tensor& t : kernel::test::make_inputs(p, p.dtype)) in.push_back(placed(t, shift));
  for (const TensorType& type : p.outputs)
    out.push_back(placed(*Tensor::allocate(cpu_device(), type), shift));
  TR_ASSIGN_OR_RETURN(const Buffer workspace, gpu().device->allocate(kernel.workspace_bytes()));
  CudaStream stream(*gpu().device);
  TR_RETURN_IF_ERROR(kernel.enqueue({in, out, workspace.data(), stream}));
  TR_RETURN_IF_ERROR(stream.synchronize());
  for (const Tensor& t : out) results.push_back(to_host(t));
  return results;
}

class CudaProducts : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { TR_NEEDS_GPU(gpu().device != nullptr ? "" : gpu().why); }
};

TEST_P(CudaProducts, ComeToWhatTheReferenceComesToByEveryRow) {
  const Case c = cases()[static_cast<std::size_t>(GetParam())];
  const Problem p(c);
  if (!gpu().computes() && p.dtype != DType::kF32 && p.dtype != DType::kBF16) return;  // texts alike
  const CudaQuery query{*p.def, p.inputs, p.outputs, p.attrs, *gpu().device};
  int rows = 0;
  for (const CudaRow& row : cuda_kernels()) {
    if (row.op != p.def->name || (row.applicable != nullptr && !row.applicable(query))) continue;
    const auto kernel = row.make(query);
    ASSERT_TRUE(kernel.ok()) << c.to_string() << " by " << row.name << ": " << kernel.status().to_string();
    ++rows;
    if (!gpu().computes()) continue;
    const auto got = run(**kernel, p, 0), again = run(**kernel, p, 0);
    ASSERT_TRUE(got.ok() && again.ok())
        << c.to_string() << " by " << row.name << ": " << got.status().to_string();
    const kernel::test::Values want = kernel::test::run_reference(p, p.dtype);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::vector<double> values = to_doubles((*got)[i]);
      EXPECT_LE(distance(values, want[i]), most_distance(p.dtype))
          << c.to_string() << " by " << row.name << ", output " << i;
      EXPECT_EQ(values, to_doubles((*again)[i]))
          << c.to_string() << " by " << row.name << " again, output " << i;
    }
  }
  EXPECT_GE(rows, 1) << c.to_string();
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaProducts, ::testing::Range(0, static_cast<int>(cases().size())));

class CudaLibraries : public ::testing::Test {
 protected:
  void SetUp() override { TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why); }
};

// Addresses of weights in a bucket are multiples of their elements only.
TEST_F(CudaLibraries, TakeWeightsAtAnyAddress) {
  const Case products[] = {{"matmul", {{40, 64}, {64, 24}}, {}, DType::kBF16},
                           {"matmul_bias_act", {{40, 64}, {64, 24}, {24}}, {}, DType::kF32}};
  for (const Case& c : products) {
    const Problem p(c);
    const CudaQuery query{*p.def, p.inputs, p.outputs, p.attrs, *gpu().device};
    const auto kernel = (*choose_cuda_kernel(query))->make(query);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const auto got = run(**kernel, p, 4);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_LE(distance(to_doubles((*got)[0]), kernel::test::run_reference(p, p.dtype)[0]),
              most_distance(p.dtype));
  }
}

// A filter and its gradient behind a tensor of 10 elements.
TEST_F(CudaLibraries, TakeFiltersAtAnyAddress) {
  const op::Attrs window{{"pad_h", std::int64_t{1}}, {"pad_w", std::int64_t{1}}};
  op::Attrs own = window;
  own.set("filter_shape", Ints{24, 16, 3, 3});
  const Case convs[] = {{"conv2d", {{2, 16, 14, 14}, {24, 16, 3, 3}}, window},
                        {"conv2d_filter_grad", {{2, 16, 14, 14}, {2, 24, 14, 14}}, own}};
  for (const Case& c : convs) {
    const Problem p(c);
    const CudaQuery query{*p.def, p.inputs, p.outputs, p.attrs, *gpu().device};
    const auto kernel = (*choose_cuda_kernel(query))->make(query);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const bool writes = p.def->name == "conv2d_filter_grad";
    const auto inputs = kernel::test::make_inputs(p, p.dtype);
    const std::vector<Tensor> in{placed(inputs[0], 0), placed(inputs[1], writes ? 0 : 40)};
    const std::vector<Tensor> out{placed(*Tensor::allocate(cpu_device(), p.outputs[0]), writes ? 40 : 0)};
    const Buffer workspace = *gpu().device->allocate((*kernel)->workspace_bytes());
    CudaStream stream(*gpu().device);
    ASSERT_TRUE((*kernel)->enqueue({in, out, workspace.data(), stream}).ok());
    ASSERT_TRUE(stream.synchronize().ok());
    EXPECT_LE(distance(to_doubles(to_host(out[0])), kernel::test::run_reference(p, p.dtype)[0]), 1e-5)
        << c.to_string();
  }
}

TEST_F(CudaLibraries, RoundOperandsOnlyWhereTf32IsAsked) {
  const Case all[] = {{"matmul", {{256, 256}, {256, 256}}, {}},
                      {"conv2d", {{2, 32, 14, 14}, {32, 32, 3, 3}}, {}}};
  for (const Case& c : all) {
    const Problem p(c);
    const CudaQuery query{*p.def, p.inputs, p.outputs, p.attrs, *gpu().device, /*tf32=*/true};
    const auto kernel = (*choose_cuda_kernel(query))->make(query);
    ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
    const auto got = run(**kernel, p, 0);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_LE(distance(to_doubles((*got)[0]), kernel::test::run_reference(p, p.dtype)[0]), 2e-3)
        << c.to_string();
  }
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
