// Batch normalisation and bias gradients of matrices with a channel per column, [N,C]: images with the
// channels last. Operands other than parameters may be bf16 (their forms), so that no copy in f32 is made.
//
// Rows are cut into chunks, which depend on the shape alone; a chunk adds its columns in f32 (about a mean of
// its own where deviations are wanted), chunks are added in their order in f64: the bits do not depend on the
// width. What stands around a norm (a residual, relu, the sum of two gradients) is done in the same walks.
#include <algorithm>
#include <cmath>

#include "trireme/kernel/cpu/formed.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/channel_loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/op.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {
namespace {

struct Matrix {
  std::int64_t rows, columns, chunk, chunks;

  explicit Matrix(const Shape& s) : rows(s[0]), columns(s[1]) {
    constexpr std::int64_t kWantedChunks = 64, kLeastRows = 16, kMostRows = 256;
    chunk = std::clamp((rows + kWantedChunks - 1) / kWantedChunks, kLeastRows, kMostRows);
    chunks = (rows + chunk - 1) / chunk;
  }
  std::int64_t elems() const { return rows * columns; }
  float count() const { return static_cast<float>(rows); }
};

// A mask is computed anew from it, so it is one expression for both directions.
float gain_of(float scale, float var, float eps) { return scale / std::sqrt(var + eps); }

// In the workspace: two results of every chunk, and three numbers per channel.
struct Scratch {
  float *first, *second, *a, *b, *c;

  static std::size_t bytes(const Matrix& m) {
    return static_cast<std::size_t>((2 * m.chunks + 3) * m.columns) * sizeof(float);
  }
  Scratch(const Matrix& m, std::span<std::byte> workspace)
      : first(reinterpret_cast<float*>(workspace.data())),
        second(first + m.chunks * m.columns),
        a(second + m.chunks * m.columns),
        b(a + m.columns),
        c(b + m.columns) {}
};

std::byte* row_of(const Tensor& t, std::int64_t row) {
  return t.raw() + static_cast<std::size_t>(row * t.shape()[1]) * dtype_size(t.dtype());
}
bool is_low(const Tensor& t) { return t.dtype() == DType::kBF16; }
int low(const Tensor& t) { return is_low(t) ? 1 : 0; }
ConstRows from(const Tensor& t, std::int64_t row) { return {row_of(t, row), is_low(t)}; }
MutableRows to(const Tensor& t, std::int64_t row) { return {row_of(t, row), is_low(t)}; }

// fn(chunk, first row, rows). Two walks over the same memory go in opposite directions.
enum class Direction { kForwards, kBackwards };
template <typename Fn>
void for_chunks(op::Parallel& parallel, const Matrix& m, Direction direction, const Fn& fn) {
  for_each_affine(parallel, m.chunks, num_slices(m.chunks, m.elems(), parallel.width()),
                  direction == Direction::kBackwards,
                  [&](std::int64_t i, int) { fn(i, i * m.chunk, std::min(m.chunk, m.rows - i * m.chunk)); });
}

// Nothing of a larger result is left in caches when it is read.
bool goes_away(const Tensor& t) {
  constexpr std::size_t kCacheBytes = std::size_t{32} << 20;
  return t.type().num_bytes() > kCacheBytes;
}

// fn(first channel, behind the last). What chunks made is in the caches of those who made it: reading it
// takes several times as long as other elements do.
template <typename Fn>
void for_channels(op::Parallel& parallel, const Matrix& m, const Fn& fn) {
  constexpr std::int64_t kFarther = 8;
  for_slices(parallel, m.columns, num_slices(m.columns, kFarther * m.chunks * m.columns, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) { fn(begin, end); });
}

// y, mean, var of x, scale, bias and perhaps a residual, in two walks.
void normalise(op::KernelArgs& args, bool relu) {
  const Tensor &x = args.in(0), &y = args.out(0);
  const Matrix m(x.shape());
  const Scratch at(m, args.workspace);
  const ChannelLoops& loops = channel_loops();
  const float *scale = f32_in(args, 1), *bias = f32_in(args, 2);
  float *means = f32_out(args, 1), *vars = f32_out(args, 2);
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  for_chunks(args.parallel, m, Direction::kForwards,
             [&](std::int64_t i, std::int64_t row, std::int64_t rows) {
               loops.moments[low(x)](row_of(x, row), rows, m.columns, at.first + i * m.columns,
                                     at.second + i * m.columns);
             });
  for_channels(args.parallel, m, [&](std::int64_t begin, std::int64_t end) {
    loops.join_moments(at.first, at.second, m.chunks, m.chunk, m.rows, m.columns, begin, end, means, vars);
    for (std::int64_t c = begin; c < end; ++c) at.a[c] = gain_of(scale[c], vars[c], eps);
  });
  const bool adds = args.inputs.size() > 3;
  for_chunks(args.parallel, m, Direction::kBackwards, [&](std::int64_t, std::int64_t row, std::int64_t rows) {
    loops.normalise({.x = from(x, row),
                     .residual = adds ? from(args.in(3), row) : ConstRows{},
                     .y = to(y, row),
                     .mean = means,
                     .gain = at.a,
                     .bias = bias,
                     .relu = relu,
                     .away = goes_away(y)},
                    rows, m.columns);
  });
}
void run_norm(op::KernelArgs& args) { normalise(args, false); }
void run_norm_relu(op::KernelArgs& args) { normalise(args, true); }

// Which inputs a gradient has; -1: none. dx, dscale, dbias are the first outputs.
struct GradInputs {
  int mean, dy, bias = -1, y = -1;  // var is behind mean, a second dy behind dy
};
void normalise_grad(op::KernelArgs& args, const GradInputs& in) {
  const Tensor &x = args.in(0), &dy = args.in(in.dy), &dx = args.out(0);
  const Matrix m(x.shape());
  const Scratch at(m, args.workspace);
  const ChannelLoops& loops = channel_loops();
  const float *scale = f32_in(args, 1), *mean = f32_in(args, in.mean), *var = f32_in(args, in.mean + 1);
  float *dscale = f32_out(args, 1), *dbias = f32_out(args, 2);
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  NormGrad of{.mean = mean, .gain = at.a, .mean_d = at.b, .mean_dot = at.c, .away = goes_away(dx)};
  if (in.bias >= 0) of.bias = f32_in(args, in.bias);
  const bool masks = in.y >= 0, adds = masks && std::ssize(args.inputs) > in.dy + 1;
  for (std::int64_t c = 0; c < m.columns; ++c) at.a[c] = gain_of(scale[c], var[c], eps);
  for_chunks(args.parallel, m, Direction::kForwards,
             [&](std::int64_t i, std::int64_t row, std::int64_t rows) {
               NormGrad part = of;
               part.x = from(x, row);
               part.dy = from(dy, row);
               if (adds) part.second = from(args.in(in.dy + 1), row);
               if (masks) {
                 part.y = from(args.in(in.y), row);
                 part.masked = to(args.out(3), row);
               }
               loops.grad_sums(part, rows, m.columns, at.first + i * m.columns, at.second + i * m.columns);
             });
  for_channels(args.parallel, m, [&](std::int64_t begin, std::int64_t end) {
    loops.join_sums(at.first, m.chunks, m.columns, begin, end, dbias);
    loops.join_sums(at.second, m.chunks, m.columns, begin, end, dscale);
    for (std::int64_t c = begin; c < end; ++c) {
      const float inv = 1 / std::sqrt(var[c] + eps);
      dscale[c] *= inv;
      at.b[c] = at.a[c] * dbias[c] / m.count();
      at.c[c] = at.a[c] * inv * dscale[c] / m.count();
    }
  });
  const Tensor& seen = masks ? args.out(3) : dy;
  for_chunks(args.parallel, m, Direction::kBackwards, [&](std::int64_t, std::int64_t row, std::int64_t rows) {
    NormGrad part = of;
    part.x = from(x, row);
    part.dy = from(seen, row);
    part.dx = to(dx, row);
    loops.normalise_grad(part, rows, m.columns);
  });
}
void run_grad(op::KernelArgs& args) { normalise_grad(args, {.mean = 2, .dy = 4}); }
void run_relu_grad(op::KernelArgs& args) { normalise_grad(args, {.mean = 3, .dy = 5, .bias = 2}); }
void run_add_relu_grad(op::KernelArgs& args) { normalise_grad(args, {.mean = 2, .dy = 5, .y = 4}); }

void run_inference(op::KernelArgs& args) {
  const Tensor &x = args.in(0), &y = args.out(0);
  const Matrix m(x.shape());
  const Scratch at(m, args.workspace);
  const float *scale = f32_in(args, 1), *bias = f32_in(args, 2), *mean = f32_in(args, 3),
              *var = f32_in(args, 4);
  const auto eps = static_cast<float>(args.attrs.get_float("eps"));
  for (std::int64_t c = 0; c < m.columns; ++c) at.a[c] = gain_of(scale[c], var[c], eps);
  for_chunks(args.parallel, m, Direction::kForwards, [&](std::int64_t, std::int64_t row, std::int64_t rows) {
    channel_loops().normalise(
        {.x = from(x, row), .y = to(y, row), .mean = mean, .gain = at.a, .bias = bias, .away = goes_away(y)},
        rows, m.columns);
  });
}

void run_bias_grad(op::KernelArgs& args) {
  const Tensor& dy = args.in(0);
  const Matrix m(dy.shape());
  const Scratch at(m, args.workspace);
  float* out = f32_out(args, 0);
  for_chunks(args.parallel, m, Direction::kForwards,
             [&](std::int64_t i, std::int64_t row, std::int64_t rows) {
               channel_loops().sums[low(dy)](row_of(dy, row), rows, m.columns, at.first + i * m.columns);
             });
  for_channels(args.parallel, m, [&](std::int64_t begin, std::int64_t end) {
    channel_loops().join_sums(at.first, m.chunks, m.columns, begin, end, out);
  });
}

using Run = void (*)(op::KernelArgs&);

bool is_matrix(const TensorType& t) { return t.shape.rank() == 2 && t.shape[0] > 0; }
std::size_t bytes(const op::KernelQuery& q) { return Scratch::bytes(Matrix(q.inputs[0].shape)); }
bool is_f32_matrix(const op::KernelQuery& q) { return all_f32(q) && is_matrix(q.inputs[0]); }

// Formed: parameters and statistics, which are vectors, stay f32.
bool can_read(const op::KernelQuery& q) {
  if (!is_matrix(q.inputs[0])) return false;
  const auto known = [](const TensorType& t) {
    return t.dtype == DType::kF32 || (t.dtype == DType::kBF16 && t.shape.rank() == 2);
  };
  return std::all_of(q.inputs.begin(), q.inputs.end(), known) &&
         std::all_of(q.outputs.begin(), q.outputs.end(), known);
}

template <Run kRun>
constexpr op::KernelRow row(const char* op) {
  return {.op = op,
          .name = "rows",
          .run = kRun,
          .applicable =
              [](const op::KernelQuery& q) { return q.forms.is_plain() ? is_f32_matrix(q) : can_read(q); },
          .workspace_bytes = bytes,
          .takes = [](const op::Forms&) { return true; }};
}

}  // namespace

extern constinit const op::KernelRow kBatchNormRows = row<run_norm>("batch_norm");
extern constinit const op::KernelRow kBatchNormGradRows = row<run_grad>("batch_norm_grad");
extern constinit const op::KernelRow kBatchNormReluRows = row<run_norm_relu>("batch_norm_relu");
extern constinit const op::KernelRow kBatchNormReluGradRows = row<run_relu_grad>("batch_norm_relu_grad");
extern constinit const op::KernelRow kBatchNormAddReluGradRows =
    row<run_add_relu_grad>("batch_norm_add_relu_grad");
extern constinit const op::KernelRow kBatchNormInferenceRows = row<run_inference>("batch_norm_inference");
// The plain one has a kernel that is as fast.
extern constinit const op::KernelRow kBiasGradRows{.op = "bias_grad",
                                                   .name = "rows",
                                                   .run = run_bias_grad,
                                                   .applicable = can_read,
                                                   .workspace_bytes = bytes,
                                                   .takes = takes_formed};

}  // namespace trireme::kernel
