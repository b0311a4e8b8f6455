// Batch normalisation and bias gradients of matrices with a channel per column, [N,C]: images with the
// channels last. Operands other than parameters may be bf16 (op `adapted`), so that no copy in f32 is made.
//
// Rows are cut into chunks, which depend on the shape alone; a chunk adds its columns in f32, chunks are
// added in their order in f64: the bits do not depend on the width.
#include <algorithm>
#include <cmath>

#include "trireme/kernel/cpu/inner.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/channel_loops.h"
#include "trireme/kernel/cpu/slices.h"
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

// In the workspace: two sums of every chunk, and four numbers per channel.
struct Scratch {
  float *first, *second, *a, *b, *c, *d;

  static std::size_t bytes(const Matrix& m) {
    return static_cast<std::size_t>((2 * m.chunks + 4) * m.columns) * sizeof(float);
  }
  Scratch(const Matrix& m, std::span<std::byte> workspace)
      : first(reinterpret_cast<float*>(workspace.data())),
        second(first + m.chunks * m.columns),
        a(second + m.chunks * m.columns),
        b(a + m.columns),
        c(b + m.columns),
        d(c + m.columns) {}
};

int low(const Tensor& t) { return t.dtype() == DType::kBF16 ? 1 : 0; }

// fn(chunk, first row, rows), chunks cut over slices.
template <typename Fn>
void for_chunks(op::Parallel& parallel, const Matrix& m, const Fn& fn) {
  for_slices(parallel, m.chunks, num_slices(m.chunks, m.elems(), parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i)
                 fn(i, i * m.chunk, std::min(m.chunk, m.rows - i * m.chunk));
             });
}

// fn(channel, sum of part[chunk][channel] over chunks).
template <typename Fn>
void for_sums(op::Parallel& parallel, const Matrix& m, const float* part, const Fn& fn) {
  for_slices(parallel, m.columns, num_slices(m.columns, m.chunks * m.columns, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t c = begin; c < end; ++c) {
                 double total = 0;
                 for (std::int64_t i = 0; i < m.chunks; ++i)
                   total += static_cast<double>(part[i * m.columns + c]);
                 fn(c, total);
               }
             });
}

std::byte* row_of(const Tensor& t, std::int64_t row) {
  return t.raw() + static_cast<std::size_t>(row * t.shape()[1]) * dtype_size(t.dtype());
}

void run_norm(op::KernelArgs& args, const op::Attrs& attrs) {
  const Tensor &x = args.in(0), &y = args.out(0);
  const Matrix m(x.shape());
  const Scratch at(m, args.workspace);
  const ChannelLoops& loops = channel_loops();
  const float *scale = f32_in(args, 1), *bias = f32_in(args, 2);
  float *means = f32_out(args, 1), *vars = f32_out(args, 2);
  const auto eps = static_cast<float>(attrs.get_float("eps"));
  for_chunks(args.parallel, m, [&](std::int64_t i, std::int64_t row, std::int64_t rows) {
    loops.sums[low(x)](row_of(x, row), rows, m.columns, at.first + i * m.columns);
  });
  for_sums(args.parallel, m, at.first,
           [&](std::int64_t c, double sum) { means[c] = static_cast<float>(sum / m.count()); });
  for_chunks(args.parallel, m, [&](std::int64_t i, std::int64_t row, std::int64_t rows) {
    loops.off_squares[low(x)](row_of(x, row), means, rows, m.columns, at.first + i * m.columns);
  });
  for_sums(args.parallel, m, at.first, [&](std::int64_t c, double sum) {
    vars[c] = static_cast<float>(sum / m.count());
    at.a[c] = 1 / std::sqrt(vars[c] + eps);
  });
  for_chunks(args.parallel, m, [&](std::int64_t, std::int64_t row, std::int64_t rows) {
    loops.affine[low(x)][low(y)](row_of(x, row), row_of(y, row), means, at.a, scale, bias, rows, m.columns);
  });
}

void run_grad(op::KernelArgs& args, const op::Attrs& attrs) {
  const Tensor &x = args.in(0), &dy = args.in(4), &dx = args.out(0);
  const Matrix m(x.shape());
  const Scratch at(m, args.workspace);
  const ChannelLoops& loops = channel_loops();
  const float *scale = f32_in(args, 1), *mean = f32_in(args, 2), *var = f32_in(args, 3);
  float *dscale = f32_out(args, 1), *dbias = f32_out(args, 2);
  const auto eps = static_cast<float>(attrs.get_float("eps"));
  for (std::int64_t c = 0; c < m.columns; ++c) at.a[c] = 1 / std::sqrt(var[c] + eps);
  for_chunks(args.parallel, m, [&](std::int64_t i, std::int64_t row, std::int64_t rows) {
    loops.grad_sums[low(x)][low(dy)](row_of(x, row), row_of(dy, row), mean, at.a, rows, m.columns,
                                     at.first + i * m.columns, at.second + i * m.columns);
  });
  for_sums(args.parallel, m, at.first, [&](std::int64_t c, double sum) {
    dbias[c] = static_cast<float>(sum);
    at.b[c] = scale[c] * dbias[c] / m.count();
  });
  for_sums(args.parallel, m, at.second, [&](std::int64_t c, double dot) {
    dscale[c] = static_cast<float>(dot);
    at.c[c] = scale[c] * dscale[c] / m.count();
  });
  for_chunks(args.parallel, m, [&](std::int64_t, std::int64_t row, std::int64_t rows) {
    loops.affine_grad[low(x)][low(dy)][low(dx)](row_of(x, row), row_of(dy, row), row_of(dx, row), mean, at.a,
                                                scale, at.b, at.c, rows, m.columns);
  });
}

void run_inference(op::KernelArgs& args, const op::Attrs& attrs) {
  const Tensor &x = args.in(0), &y = args.out(0);
  const Matrix m(x.shape());
  const Scratch at(m, args.workspace);
  const float *scale = f32_in(args, 1), *bias = f32_in(args, 2), *mean = f32_in(args, 3),
              *var = f32_in(args, 4);
  const auto eps = static_cast<float>(attrs.get_float("eps"));
  for (std::int64_t c = 0; c < m.columns; ++c) {
    at.a[c] = scale[c] / std::sqrt(var[c] + eps);
    at.b[c] = 1;
  }
  for_chunks(args.parallel, m, [&](std::int64_t, std::int64_t row, std::int64_t rows) {
    channel_loops().affine[low(x)][low(y)](row_of(x, row), row_of(y, row), mean, at.a, at.b, bias, rows,
                                           m.columns);
  });
}

void run_bias_grad(op::KernelArgs& args, const op::Attrs&) {
  const Tensor& dy = args.in(0);
  const Matrix m(dy.shape());
  const Scratch at(m, args.workspace);
  float* out = f32_out(args, 0);
  for_chunks(args.parallel, m, [&](std::int64_t i, std::int64_t row, std::int64_t rows) {
    channel_loops().sums[low(dy)](row_of(dy, row), rows, m.columns, at.first + i * m.columns);
  });
  for_sums(args.parallel, m, at.first, [&](std::int64_t c, double sum) { out[c] = static_cast<float>(sum); });
}

using Run = void (*)(op::KernelArgs&, const op::Attrs&);
Run run_of(const op::OpDef* def) {
  if (def == &op::kBatchNorm) return run_norm;
  if (def == &op::kBatchNormGrad) return run_grad;
  if (def == &op::kBatchNormInference) return run_inference;
  return def == &op::kBiasGrad ? run_bias_grad : nullptr;
}

bool is_matrix(const TensorType& t) { return t.shape.rank() == 2 && t.shape[0] > 0; }
std::size_t bytes(const op::KernelQuery& q) { return Scratch::bytes(Matrix(q.inputs[0].shape)); }
bool is_f32_matrix(const op::KernelQuery& q) { return all_f32(q) && is_matrix(q.inputs[0]); }

// Parameters and statistics, which are vectors, stay f32.
bool can_read(const op::KernelQuery& q) {
  const auto inner = Inner::of(q);
  if (!inner || run_of(inner->adapted.def) == nullptr || !is_matrix(q.inputs[0])) return false;
  const auto known = [](const TensorType& t) {
    return t.dtype == DType::kF32 || (t.dtype == DType::kBF16 && t.shape.rank() == 2);
  };
  return std::all_of(q.inputs.begin(), q.inputs.end(), known) &&
         std::all_of(q.outputs.begin(), q.outputs.end(), known);
}

class InnerState final : public op::KernelState {
 public:
  explicit InnerState(const op::KernelQuery& q) : inner_(*Inner::of(q)) {}
  void run(op::KernelArgs& args) const { run_of(inner_.adapted.def)(args, inner_.adapted.attrs); }

 private:
  Inner inner_;
};

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) { return std::make_unique<InnerState>(q); }

template <Run kRun>
constexpr op::KernelRow row(const char* op) {
  return {.op = op,
          .name = "rows",
          .run = [](op::KernelArgs& args) { kRun(args, args.attrs); },
          .applicable = is_f32_matrix,
          .workspace_bytes = bytes};
}

}  // namespace

constinit const op::KernelRow kBatchNormRows = row<run_norm>("batch_norm");
constinit const op::KernelRow kBatchNormGradRows = row<run_grad>("batch_norm_grad");
constinit const op::KernelRow kBatchNormInferenceRows = row<run_inference>("batch_norm_inference");
const op::KernelRow kAdaptedRows{
    .op = "adapted",
    .name = "rows",
    .run = [](op::KernelArgs& args) { static_cast<const InnerState&>(*args.state).run(args); },
    .applicable = can_read,
    .workspace_bytes = bytes,
    .prepare = prepare};

}  // namespace trireme::kernel
