// Recurrent layers that keep something for their gradients, on the GPU against the references of the plain
// ops. Where cuDNN does not run them nothing is kept, and the gradient goes forward again.
#include <fmt/format.h>

#include "tests/conformance/harness.h"
#include "tests/kernel_cuda/gpu.h"
#include "tests/kernel_cuda/needs_gpu.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/op/sequence/recurrent_kept.h"

namespace trireme::kernel::cuda::test {
namespace {

using op::testing::converted;
using op::testing::to_doubles;

struct Layer {
  std::string cell;
  std::int64_t gates, steps, batch, size, units;
  bool has_cell() const { return gates == 4; }
  // Inputs of the forward op, then gradients of its outputs.
  std::vector<Tensor> inputs(DType dtype) const {
    const std::int64_t rows = gates * units;
    std::vector<Shape> shapes{{steps, batch, size}, {batch, units}};
    if (has_cell()) shapes.push_back({batch, units});
    for (const Shape& s : {Shape{rows, size}, Shape{rows, units}, Shape{rows}, Shape{rows}})
      shapes.push_back(s);
    shapes.push_back({steps, batch, units});
    for (int i = 0; i < (has_cell() ? 2 : 1); ++i) shapes.push_back({batch, units});
    std::vector<Tensor> made;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Tensor t = op::testing::random_real({DType::kF32, shapes[i]}, 100 + i);
      const bool weight = i >= num_inputs() - 4 && i < num_inputs();
      for (float& v : std::span(t.data<float>(), static_cast<std::size_t>(shapes[i].num_elems())))
        v *= weight ? 0.5F / std::sqrt(static_cast<float>(units)) : 0.5F;
      made.push_back(converted(t, dtype));
    }
    return made;
  }
  std::size_t num_inputs() const { return has_cell() ? 7 : 6; }
};

std::vector<Tensor> reference(const op::OpDef& def, const op::Attrs& attrs, const std::vector<Tensor>& in) {
  std::vector<Tensor> wide;
  for (const Tensor& t : in) wide.push_back(converted(t, DType::kF64));
  return *op::testing::run_op(def, wide, attrs);
}

void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance,
                 const std::string& what) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> g = to_doubles(got[i]), w = to_doubles(want[i]);
    double most = 1e-6, off = 0;
    for (std::size_t k = 0; k < w.size(); ++k) {
      most = std::max(most, std::abs(w[k]));
      off = std::max(off, std::isnan(g[k]) ? 1e30 : std::abs(g[k] - w[k]));
    }
    EXPECT_LE(off, tolerance * most) << what << ", output " << i;
  }
}

void check(const Layer& layer, DType dtype) {
  const op::KeptCell cell = op::kept_cell(layer.cell);
  const std::vector<Tensor> all = layer.inputs(dtype);
  const std::vector<Tensor> in(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(layer.num_inputs()));
  const auto types = op::testing::types_of(in);
  const op::Attrs plain = *op::complete_attrs(*cell.forward, cell.attrs);
  const auto outputs = *op::infer_types(*cell.forward, types, plain);
  const auto kept = recurrent_reserve({*cell.forward, types, outputs, plain, *gpu().device});
  const op::Attrs attrs{{"cell", layer.cell},
                        {"bytes", kept ? kept->bytes : std::int64_t{0}},
                        {"algorithm", kept ? kept->algorithm : std::int64_t{0}}};
  const std::string what = fmt::format("{} {} T{} B{} I{} H{}, {} bytes kept by algorithm {}", layer.cell,
                                       dtype_name(dtype), layer.steps, layer.batch, layer.size, layer.units,
                                       kept ? kept->bytes : 0, kept ? kept->algorithm : 0);
  const OnDevice forward(op::kRecurrentKept, types, attrs);
  ASSERT_TRUE(forward.status().ok()) << what << forward.status().to_string();
  const auto y = forward.run(in), again = forward.run(in);
  ASSERT_TRUE(y.ok() && again.ok()) << what << y.status().to_string();
  const double tolerance = dtype == DType::kF32 ? 2e-5 : dtype == DType::kF16 ? 4e-3 : 3e-2;
  expect_near(*y, reference(*cell.forward, cell.attrs, in), tolerance, what);
  std::vector<Tensor> given = in;
  given.push_back((*y)[0]);
  given.push_back(y->back());
  given.insert(given.end(), all.begin() + static_cast<std::ptrdiff_t>(layer.num_inputs()), all.end());
  const OnDevice back(op::kRecurrentKeptGrad, op::testing::types_of(given), attrs);
  ASSERT_TRUE(back.status().ok()) << what << back.status().to_string();
  const auto grads = back.run(given), grads_again = back.run(given);
  ASSERT_TRUE(grads.ok() && grads_again.ok()) << what << grads.status().to_string();
  expect_near(*grads, reference(*cell.grad, cell.attrs, all), tolerance, what + ", gradient");
  for (std::size_t i = 0; i + 1 < y->size(); ++i)
    op::testing::expect_same_bits((*again)[i], (*y)[i], what + ", again");
  for (std::size_t i = 0; i < grads->size(); ++i)
    op::testing::expect_same_bits((*grads_again)[i], (*grads)[i], what + ", gradient again");
}

TEST(CudaRecurrent, KeepsWhatTheGradientNeeds) {
  TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why);
  for (const auto& [cell, gates] : {std::pair{"lstm", 4}, {"gru", 3}, {"rnn_tanh", 1}, {"rnn_relu", 1}})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      check({cell, gates, 5, 3, 7, 9}, dtype);
      check({cell, gates, 4, 16, 32, 64}, dtype);
    }
}

TEST(CudaRecurrent, RefusesOtherBytesThanItKeeps) {
  TR_NEEDS_GPU(gpu().computes() ? "" : gpu().why);
  const Layer layer{"lstm", 4, 2, 2, 3, 4};
  std::vector<Tensor> in = layer.inputs(DType::kF32);
  in.resize(layer.num_inputs());
  const OnDevice on(op::kRecurrentKept, op::testing::types_of(in), {{"bytes", std::int64_t{12345}}});
  if (on.row() != nullptr && std::string_view(on.row()->name) == "cudnn") {
    EXPECT_EQ(on.status().code(), Code::kInvalid);
    EXPECT_NE(on.status().message().find("got 12345"), std::string::npos) << on.status().message();
  }
}

}  // namespace
}  // namespace trireme::kernel::cuda::test
