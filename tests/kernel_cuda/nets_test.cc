// Pooling, windows, recurrent nets and small matrices on the GPU in the shapes that choose another text or
// path than the conformance cases do.
#include <cmath>
#include <limits>

#include "tests/conformance/op_cases.h"
#include "tests/kernel/runner.h"
#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/base/json.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/detail/attr_json.h"
#include "trireme/op/forms.h"
#include "trireme/tensor/half.h"

namespace trireme::kernel::cuda::test {
namespace {

using op::testing::to_doubles;

using kernel::test::Case;
using Ints = std::vector<std::int64_t>;

op::Attrs pool(Ints v) {
  return {{"window_h", v[0]}, {"window_w", v[1]}, {"stride_h", v[2]},
          {"stride_w", v[3]}, {"pad_h", v[4]},    {"pad_w", v[5]}};
}

// x, then sizes of a pool as above; all pooling ops.
void add_pool(std::vector<Case>& out, const Shape& x, const Ints& v, DType dtype = DType::kF32) {
  const Shape y{x[0], x[1], (x[2] + 2 * v[4] - v[0]) / v[2] + 1, (x[3] + 2 * v[5] - v[1]) / v[3] + 1};
  out.push_back({"max_pool2d", {x}, pool(v), dtype});
  out.push_back({"max_pool2d_grad", {x, y, y}, pool(v), dtype});
  out.push_back({"max_pool2d_grad_grad", {x, y, x}, pool(v), dtype});
  out.push_back({"l2_pool2d", {x}, pool(v), dtype});
  for (const bool whole : {true, false}) {
    op::Attrs attrs = pool(v);
    attrs.set("count_include_pad", whole);
    out.push_back({"avg_pool2d", {x}, attrs, dtype});
    attrs.set("input_shape", Ints{x[0], x[1], x[2], x[3]});
    out.push_back({"avg_pool2d_grad", {y}, attrs, dtype});
  }
}

void add_pools(std::vector<Case>& out) {
  add_pool(out, {2, 3, 23, 31}, {9, 8, 5, 3, 4, 2});  // a window too large to unroll
  add_pool(out, {1, 2, 30, 23}, {3, 3, 7, 5, 1, 1});  // small windows, strides too large for patches
  add_pool(out, {2, 2, 17, 19}, {5, 4, 3, 3, 2, 1});  // patches of three columns
  add_pool(out, {2, 2, 13, 16}, {3, 5, 2, 4, 1, 2});  // four columns stored at once
  add_pool(out, {2, 2, 14, 14}, {3, 3, 2, 2, 1, 1}, DType::kBF16);
  add_pool(out, {2, 2, 15, 13}, {3, 3, 2, 2, 0, 0}, DType::kF16);
  add_pool(out, {1, 2, 6, 5}, {3, 3, 1, 1, 1, 1}, DType::kF64);
  const Shape many{2100, 1, 64, 64}, half{2100, 1, 32, 32};  // more planes than threads take at once
  out.push_back({"max_pool2d_grad", {many, half, half}, pool({2, 2, 2, 2, 0, 0}), DType::kBF16});
}

void add_windows(std::vector<Case>& out) {
  const auto window = [](std::int64_t axis, std::int64_t before, std::int64_t after) {
    return op::Attrs{{"axis", axis}, {"before", before}, {"after", after}};
  };
  const auto norm = [](std::int64_t size, double beta) {
    return op::Attrs{{"size", size}, {"alpha", 0.7}, {"beta", beta}, {"k", 2.0}};
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    out.push_back({"window_sum", {{3, 70, 5, 9}}, window(1, 3, 1), dtype});  // chunks along channels
    out.push_back({"window_sum", {{3, 70, 5, 9}}, window(1, 12, 9), dtype});
    out.push_back({"window_sum", {{40, 3, 50}}, window(0, 2, 0), dtype});
    out.push_back({"local_response_norm", {{2, 70, 6, 7}}, norm(5, 0.75), dtype});
    out.push_back({"local_response_norm", {{2, 33, 6, 7}}, norm(4, 0.6), dtype});
    out.push_back({"local_response_norm", {{2, 6, 260, 260}}, norm(5, 0.75), dtype});  // whole rows
    out.push_back({"gaussian_blur2d", {{2, 3, 9, 14}}, {{"window", std::int64_t{5}}, {"sigma", 1.3}}, dtype});
    out.push_back(
        {"local_contrast_norm", {{2, 3, 9, 14}}, {{"window", std::int64_t{7}}, {"sigma", 2.0}}, dtype});
  }
  const op::Attrs attrs{{"stride_h", std::int64_t{2}},
                        {"pad_h", std::int64_t{1}},
                        {"pad_w", std::int64_t{2}},
                        {"groups", std::int64_t{2}},
                        {"dilation_w", std::int64_t{2}}};
  const Shape x{5, 4, 9, 8}, y{5, 6, 5, 8}, filter{5, 8, 6, 2, 3, 3};
  op::Attrs input = attrs, own = attrs;
  input.set("input_shape", Ints{5, 4, 9, 8});
  own.set("filter_shape", Ints{5, 8, 6, 2, 3, 3});
  out.push_back({"locally_connected2d", {x, filter}, attrs});
  out.push_back({"locally_connected2d_input_grad", {filter, y}, input});
  out.push_back({"locally_connected2d_filter_grad", {x, y}, own});
}

// The last size of each does not fit into shared memory.
void add_matrices(std::vector<Case>& out) {
  for (const std::int64_t n : {7, 33, 70}) out.push_back({"inverse", {{3, n, n}}, {}, DType::kF64});
  for (const std::int64_t n : {7, 33, 130}) out.push_back({"determinant", {{3, n, n}}, {}, DType::kF64});
}

void add_recurrent(std::vector<Case>& out, const std::string& op, std::int64_t gates,
                   const op::Attrs& attrs) {
  const std::int64_t steps = 5, batch = 7, size = 9, units = 11, rows = gates * units;
  const Shape state{batch, units}, y{steps, batch, units};
  std::vector<Shape> in{{steps, batch, size}, state}, grads{y, state};
  if (gates == 4) in.push_back(state), grads.push_back(state);
  in.insert(in.end(), {{rows, size}, {rows, units}, {rows}, {rows}});
  std::vector<Shape> all = in;
  all.insert(all.end(), grads.begin(), grads.end());
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    out.push_back({op, in, attrs, dtype});
    out.push_back({op + "_grad", all, attrs, dtype});
  }
}

// Formed operands: attributes as JSON, forms as text, which inputs are bf16.
void add_formed(std::vector<Case>& out, const std::string& op, const std::string& attrs,
                const std::string& forms, std::vector<Shape> in, const std::vector<int>& low) {
  const auto values = parse_json("{" + attrs + "}", "attrs");
  Case c{op, std::move(in), op::detail::attrs_from_json(*op::find_op(op), *values).value()};
  c.forms = forms;
  for (const int i : low) c.special[i] = {.dtype = DType::kBF16};
  out.push_back(std::move(c));
}

void add_mixed(std::vector<Case>& out) {
  const std::string pool = R"("window_h":3,"window_w":3,"stride_h":2,"stride_w":2,"pad_h":1,"pad_w":1)";
  const std::string norm = R"("size":5,"alpha":0.5,"beta":0.75,"k":2.0)";
  const Shape x{2, 3, 14, 14}, y{2, 3, 7, 7};
  add_formed(out, "max_pool2d", pool, "->bf16", {x}, {});
  add_formed(out, "max_pool2d_grad", pool, "-,f32,f32>bf16", {x, y, y}, {1, 2});
  add_formed(out, "max_pool2d_grad", pool, "f32,-,->-", {x, y, y}, {0});
  add_formed(out, "max_pool2d_grad_grad", pool, "f32,-,->bf16", {x, y, x}, {0});
  add_formed(out, "avg_pool2d", pool, "f32>-", {x}, {0});
  add_formed(out, "avg_pool2d_grad", pool + R"(,"input_shape":[2,3,14,14])", "f32>-", {y}, {0});
  add_formed(out, "local_response_norm", norm, "f32>-", {{2, 40, 6, 7}}, {0});
  add_formed(out, "window_sum", R"("axis":1,"before":2,"after":1)", "->bf16", {{2, 9, 3}}, {});
}

// The channels last in memory: x [N,H,W,C] and filters [O,KH,KW,C], of whole packs of channels and of others.
void add_channels_last(std::vector<Case>& out) {
  const std::string pool = R"("window_h":3,"window_w":2,"stride_h":2,"stride_w":1,"pad_h":1,"pad_w":0)";
  const auto add = [&](const std::string& op, const std::string& attrs, std::vector<Shape> in) {
    std::string forms;
    for (const Shape& s : in)
      forms += fmt::format("{}{}", forms.empty() ? "" : ",", s.rank() == 4 ? "nhwc" : "-");
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
      add_formed(out, op, attrs, forms + ">nhwc", in, {});
      out.back().dtype = dtype;
    }
  };
  for (const std::int64_t c : {16, 6, 1}) {
    const Shape x{2, 9, 7, c}, y{2, 5, 6, c};
    const std::string shape = fmt::format(R"(,"input_shape":[2,{},9,7])", c);
    add("max_pool2d", pool, {x});
    add("max_pool2d_grad", pool, {x, y, y});
    add("max_pool2d_grad_grad", pool, {x, y, x});
    add("avg_pool2d", pool + R"(,"count_include_pad":false)", {x});
    add("avg_pool2d_grad", pool + shape, {y});
    add("l2_pool2d", pool, {x});
    add("max_pool2d_places_grad", pool + shape, {y, y});
    for (std::size_t k = out.size() - 4; k < out.size(); ++k)
      out[k].special[1] = {.dtype = DType::kU8, .low = 0, .limit = 7};
    add_formed(out, "max_pool2d_places", pool, "f32/nhwc>bf16/nhwc,nhwc", {x}, {0});
    add("max_pool2d_grad", R"("window_h":9,"window_w":7,"stride_h":1,"stride_w":1)",
        {x, {2, 1, 1, c}, {2, 1, 1, c}});
  }
  const std::string conv = R"("stride_h":2,"stride_w":1,"pad_h":1,"pad_w":2,"dilation_w":2)";
  for (const std::int64_t groups : {1, 2}) {
    const Shape x{2, 9, 7, 8}, filter{16, 3, 2, 8 / groups}, y{2, 5, 9, 16};
    const std::string attrs = fmt::format(R"({},"groups":{})", conv, groups);
    add("conv2d", attrs, {x, filter});
    add("conv2d_bias_act", attrs + R"(,"relu":true)", {x, filter, {16}});
    add("conv2d_bias_act", attrs + R"(,"relu":false)", {x, {6, 3, 2, 8 / groups}, {6}});
    add("conv2d_input_grad", attrs + R"(,"input_shape":[2,8,9,7])", {filter, y});
    add("conv2d_filter_grad", attrs + fmt::format(R"(,"filter_shape":[16,{},3,2])", 8 / groups), {x, y});
  }
  const Shape thin{2, 9, 7, 3}, thin_filter{16, 3, 2, 3}, thin_y{2, 5, 9, 16};  // padded for cuDNN
  add("conv2d", conv, {thin, thin_filter});
  add("conv2d_filter_grad", conv + R"(,"filter_shape":[16,3,3,2])", {thin, thin_y});
  const std::string casts = "nhwc,f32/nhwc,f32/nhwc>bf16/nhwc";
  add_formed(out, "max_pool2d_grad", pool, casts, {{2, 9, 7, 8}, {2, 5, 6, 8}, {2, 5, 6, 8}}, {1, 2});
}

std::vector<Case> cases() {
  std::vector<Case> out;
  add_channels_last(out);
  add_pools(out);
  add_windows(out);
  add_matrices(out);
  for (const char* kind : {"tanh", "relu"})
    add_recurrent(out, "rnn", 1, {{"nonlinearity", std::string(kind)}});
  add_recurrent(out, "lstm", 4, {});
  add_recurrent(out, "gru", 3, {});
  add_mixed(out);
  return out;
}

class CudaNets : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { TR_NEEDS_GPU(gpu().device != nullptr ? "" : gpu().why); }
};

TEST_P(CudaNets, ComeToWhatTheReferenceComesTo) {
  const Case c = cases()[static_cast<std::size_t>(GetParam())];
  const kernel::test::Problem p(c);
  if (!gpu().computes() && p.dtype != DType::kF32) return;  // one dtype shows whether a text compiles
  const OnDevice on(*p.def, p.inputs, p.attrs, /*tf32=*/false, p.forms);
  ASSERT_TRUE(on.status().ok()) << c.to_string() << ": " << on.status().to_string();
  if (!gpu().computes()) return;
  const auto got = on.run(kernel::test::make_inputs(p, p.dtype));
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  const kernel::test::Values want = kernel::test::run_reference(p, p.dtype);
  ASSERT_EQ(got->size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> values = to_doubles((*got)[i]);
    ASSERT_EQ(values.size(), want[i].size());
    double error = 0, size = 1e-30;
    for (std::size_t k = 0; k < values.size(); ++k) {
      error += (values[k] - want[i][k]) * (values[k] - want[i][k]);
      size += want[i][k] * want[i][k];
    }
    const DType dtype = (*got)[i].dtype();
    // cuDNN rounds states and gates of recurrent layers to 16 bits at every step.
    const double slack = on.row()->make == &make_recurrent_dnn ? 24 : 1;
    const double most = dtype == DType::kBF16  ? 2e-3
                        : dtype == DType::kF16 ? 3e-4
                        : dtype == DType::kF64 ? 1e-10
                                               : 1e-5;
    EXPECT_LE(std::sqrt(error / size), slack * most) << c.to_string() << ", output " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaNets, ::testing::Range(0, static_cast<int>(cases().size())));

TEST(CudaPooling, TakesTheFirstNaNAndWindowsOfMinusInfinity) {
  TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why);
  const float nan = std::numeric_limits<float>::quiet_NaN(), low = -std::numeric_limits<float>::infinity();
  const auto tensor = [](const Shape& shape, std::vector<float> values) {
    Tensor t = *Tensor::allocate(cpu_device(), {DType::kF32, shape});
    std::copy(values.begin(), values.end(), t.data<float>());
    return t;
  };
  const Shape y{1, 1, 2, 2};
  const Tensor x = tensor({1, 1, 4, 4}, {1, nan, low, low, nan, 2, low, low, 3, 3, 0, -1, 3, 2, nan, 5});
  const Tensor dy = tensor(y, {1, 2, 4, 8});
  const auto run = [&](const char* op, std::vector<Tensor> in) {
    std::vector<TensorType> types;
    for (const Tensor& t : in) types.push_back(t.type());
    const OnDevice on(*op::find_op(op), types, pool({2, 2, 2, 2, 0, 0}));
    return to_doubles((*on.run(in))[0]);
  };
  const auto pooled = run("max_pool2d", {x});
  EXPECT_TRUE(std::isnan(pooled[0]) && std::isnan(pooled[3]));
  EXPECT_EQ(pooled[1], static_cast<double>(low));
  EXPECT_EQ(pooled[2], 3);
  EXPECT_EQ(run("max_pool2d_grad", {x, dy, dy}),
            (std::vector<double>{0, 1, 2, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0}));
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
