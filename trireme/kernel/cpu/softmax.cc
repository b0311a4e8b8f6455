// Softmax along the last dimension, the losses on it and whether it is right: rows are cut over slices.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/misc_loops.h"
#include "trireme/kernel/cpu/simd/row_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/nn/sample_loss.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

// Exponentials cost about as much as touching this many elements.
constexpr std::int64_t kWorkPerElem = 4;

int row_slices(std::int64_t rows, std::int64_t n, int width) {
  return num_slices(rows, rows * n * kWorkPerElem, width);
}

bool along_last(const op::KernelQuery& q) {
  const auto axis = op::detail::resolve_axis("axis", q.attrs.get_int("axis"), q.inputs[0]);
  return all_f32(q) && axis.ok() && *axis == q.inputs[0].shape.rank() - 1 &&
         q.inputs[0].shape.num_elems() > 0;
}

// fn(row of x, row of y, n) for every row.
template <typename Fn>
void for_rows(op::KernelArgs& args, const Fn& fn) {
  const Shape& shape = args.in(0).shape();
  const std::int64_t n = shape.dim(-1), rows = shape.num_elems() / n;
  const float* x = f32_in(args, 0);
  float* y = f32_out(args, 0);
  for_slices(args.parallel, rows, row_slices(rows, n, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t r = begin; r < end; ++r) fn(x + r * n, y + r * n, n);
             });
}

void run_softmax(op::KernelArgs& args) {
  for_rows(args, [](const float* x, float* y, std::int64_t n) {
    float top = 0, total = 0;
    row_loops().shifted_exp(x, y, &top, &total, n);
    vector_loops().scale(y, 1 / total, y, n);
  });
}

void run_log_softmax(op::KernelArgs& args) {
  for_rows(args, [](const float* x, float* y, std::int64_t n) {
    float top = 0, total = 0;
    row_loops().shifted_exp(x, y, &top, &total, n);
    // Two steps, like the reference: the logarithm is small where the maximum is large.
    vector_loops().add_scalar(x, -top, y, n);
    vector_loops().add_scalar(y, -std::log(total), y, n);
  });
}

bool f32_logits(const op::KernelQuery& q) {
  return q.inputs[0].dtype == DType::kF32 && q.inputs[0].shape[0] > 0;
}

// A row of exponentials per slice.
std::size_t loss_workspace(const op::KernelQuery& q) {
  const std::int64_t rows = q.inputs[0].shape[0], n = q.inputs[0].shape[1];
  return static_cast<std::size_t>(row_slices(rows, n, q.width) * n) * sizeof(float);
}

void run_loss(op::KernelArgs& args) {
  const std::int64_t rows = args.in(0).shape()[0], n = args.in(0).shape()[1];
  const float *logits = f32_in(args, 0), *weights = f32_in(args, 2);
  float* out = f32_out(args, 0);
  auto* powers = reinterpret_cast<float*>(args.workspace.data());
  for_slices(args.parallel, rows, row_slices(rows, n, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int slice) {
               for (std::int64_t i = begin; i < end; ++i) {
                 const std::int64_t label = op::detail::label_at(args.in(1), i);
                 out[i] = weights[i] == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
                 if (weights[i] == 0 || label < 0 || label >= n) continue;
                 float top = 0, total = 0;
                 row_loops().shifted_exp(logits + i * n, powers + slice * n, &top, &total, n);
                 out[i] = weights[i] * (top + std::log(total) - logits[i * n + label]);
               }
             });
}

void run_loss_grad(op::KernelArgs& args) {
  const std::int64_t rows = args.in(0).shape()[0], n = args.in(0).shape()[1];
  const float *logits = f32_in(args, 0), *weights = f32_in(args, 2), *dlosses = f32_in(args, 3);
  float* out = f32_out(args, 0);
  for_slices(args.parallel, rows, row_slices(rows, n, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i) {
                 float* row = out + i * n;
                 const std::int64_t label = op::detail::label_at(args.in(1), i);
                 if (weights[i] == 0 || label < 0 || label >= n) {
                   std::fill(row, row + n, weights[i] == 0 ? 0 : std::numeric_limits<float>::quiet_NaN());
                   continue;
                 }
                 const float factor = weights[i] * dlosses[i];
                 float top = 0, total = 0;
                 row_loops().shifted_exp(logits + i * n, row, &top, &total, n);
                 vector_loops().scale(row, 1 / total, row, n);
                 row[label] -= 1;
                 vector_loops().scale(row, factor, row, n);
               }
             });
}

void run_correct(op::KernelArgs& args) {
  const std::int64_t rows = args.in(0).shape()[0], n = args.in(0).shape()[1];
  const float *logits = f32_in(args, 0), *weights = f32_in(args, 2);
  float* out = f32_out(args, 0);
  for_slices(args.parallel, rows, num_slices(rows, rows * n, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i) {
                 const std::int64_t label = op::detail::label_at(args.in(1), i);
                 const bool counts = label >= 0 && label < n && weights[i] > 0;
                 out[i] = counts && misc_loops().is_first_maximum(logits + i * n, label, n) ? 1.0F : 0.0F;
               }
             });
}

}  // namespace

extern const op::KernelRow kCorrectVector{
    .op = "correct", .name = "vector", .run = run_correct, .applicable = f32_logits};
extern const op::KernelRow kLogSoftmaxVector{
    .op = "log_softmax", .name = "vector", .run = run_log_softmax, .applicable = along_last};
extern const op::KernelRow kSoftmaxVector{
    .op = "softmax", .name = "vector", .run = run_softmax, .applicable = along_last};
extern const op::KernelRow kSoftmaxCrossEntropyVector{.op = "softmax_cross_entropy",
                                                      .name = "vector",
                                                      .run = run_loss,
                                                      .applicable = f32_logits,
                                                      .workspace_bytes = loss_workspace};
extern const op::KernelRow kSoftmaxCrossEntropyGradVector{
    .op = "softmax_cross_entropy_grad", .name = "vector", .run = run_loss_grad, .applicable = f32_logits};

}  // namespace trireme::kernel
