// Products with bias and relu: the product's own kernel over chunks of samples (rows of a matrix, images),
// each followed by one pass over its result while that is in the cache.
//
// The kernel of a chunk may differ from that of the whole (a library may block differently), so results agree
// with the parts run one by one within rounding, not to the bit.
#include <algorithm>
#include <array>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/kernel/kernel.h"
#include "trireme/op/fused/epilogue.h"
#include "trireme/op/op.h"
#include "trireme/op/ops.h"

namespace trireme::kernel {
namespace {

// The result of a chunk has so many bytes, which are within the second-level cache of one core.
constexpr std::int64_t kChunkBytes = std::int64_t{512} * 1024;

const op::OpDef& matmul_shape(std::string_view op) {
  return op == "conv2d_bias_act" ? op::kConv2d : op::kMatmul;
}

// The product's kernel for a number of samples.
struct MatmulShape {
  MatmulShape(const op::KernelQuery& q, std::int64_t samples)
      : def(&matmul_shape(q.def.name)), attrs(op::detail::product_attrs(*def, q.attrs)), n(samples) {
    std::array<TensorType, 2> in{q.inputs[0], q.inputs[1]};
    in[0].shape.set(0, n);
    TensorType out = q.outputs[0];
    out.shape.set(0, n);
    const op::KernelQuery own{*def, in, std::span(&out, 1), attrs, q.width};
    const auto choice = choose_cpu_kernel(own);
    row = choice.ok() ? choice->row : nullptr;
    if (row == nullptr) return;
    if (row->workspace_bytes != nullptr) workspace_bytes = row->workspace_bytes(own);
    if (row->prepare != nullptr) state = row->prepare(own);
  }

  const op::OpDef* def;
  op::Attrs attrs;
  std::int64_t n;
  const op::KernelRow* row = nullptr;
  std::size_t workspace_bytes = 0;
  std::unique_ptr<op::KernelState> state;
};

std::int64_t chunk_of(const op::KernelQuery& q) {
  const std::int64_t samples = q.outputs[0].shape[0];
  const auto bytes = static_cast<std::int64_t>(q.outputs[0].num_bytes());
  if (samples == 0 || bytes == 0) return std::max<std::int64_t>(samples, 1);
  const std::int64_t chunks = std::max<std::int64_t>(1, bytes / (kChunkBytes * q.width));
  return (samples + chunks - 1) / chunks;
}

class EpilogueState final : public op::KernelState {
 public:
  explicit EpilogueState(const op::KernelQuery& q)
      : whole_(q, chunk_of(q)), rest_(q, q.outputs[0].shape[0] % whole_.n) {}
  bool ok() const { return whole_.row != nullptr && (rest_.n == 0 || rest_.row != nullptr); }
  std::size_t workspace_bytes() const { return std::max(whole_.workspace_bytes, rest_.workspace_bytes); }
  std::int64_t chunk() const { return whole_.n; }
  const MatmulShape& product(std::int64_t n) const { return n == whole_.n ? whole_ : rest_; }

 private:
  MatmulShape whole_, rest_;
};

// Samples of `a` must be rows in memory; a transposed one has them in columns.
bool applicable(const op::KernelQuery& q) {
  if (!all_f32(q) || q.outputs[0].shape.num_elems() == 0) return false;
  const op::AttrValue* transposed = q.attrs.find("transpose_a");
  if (transposed != nullptr && std::get<bool>(*transposed)) return false;
  return EpilogueState(q).ok();
}

std::size_t workspace_bytes(const op::KernelQuery& q) { return EpilogueState(q).workspace_bytes(); }
std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) {
  return std::make_unique<EpilogueState>(q);
}

// y += bias, relu, over `samples` of [n, c, inner...].
void finish(op::Parallel& parallel, float* y, const float* bias, const Shape& shape, std::int64_t samples,
            bool relu) {
  const std::int64_t c = shape[1], inner = shape.num_elems() / (shape[0] * c);
  const VectorLoops& loops = vector_loops();
  const bool by_rows = inner == 1;
  const std::int64_t run = by_rows ? c : inner, num_runs = by_rows ? samples : samples * c;
  for_slices(parallel, num_runs, num_slices(num_runs, num_runs * run, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i) {
                 float* at = y + i * run;
                 if (by_rows)
                   loops.add(at, bias, at, run);
                 else
                   loops.add_scalar(at, bias[i % c], at, run);
                 if (relu) loops.relu(at, at, run);
               }
             });
}

void run(op::KernelArgs& args) {
  const auto& state = static_cast<const EpilogueState&>(*args.state);
  const Tensor &a = args.in(0), &y = args.out(0);
  const bool relu = args.attrs.get_bool("relu");
  const std::int64_t per_sample = y.strides()[0];
  for (std::int64_t begin = 0; begin < y.shape()[0]; begin += state.chunk()) {
    const std::int64_t end = std::min(begin + state.chunk(), y.shape()[0]);
    const MatmulShape& product = state.product(end - begin);
    const std::array<Tensor, 2> in{a.slice(0, begin, end), args.in(1)};
    const Tensor out = y.slice(0, begin, end);
    op::KernelArgs part{.inputs = in,
                        .outputs = std::span(&out, 1),
                        .attrs = product.attrs,
                        .workspace = args.workspace.first(product.workspace_bytes),
                        .parallel = args.parallel,
                        .state = product.state.get()};
    product.row->run(part);
    finish(args.parallel, f32_out(args, 0) + begin * per_sample, f32_in(args, 2), y.shape(), end - begin,
           relu);
  }
}

constexpr op::KernelRow row(const char* op) {
  return {.op = op,
          .name = "chunks",
          .run = run,
          .applicable = applicable,
          .workspace_bytes = workspace_bytes,
          .prepare = prepare};
}

}  // namespace

extern constinit const op::KernelRow kMatmulBiasActChunks = row("matmul_bias_act");
extern constinit const op::KernelRow kConv2dBiasActChunks = row("conv2d_bias_act");

}  // namespace trireme::kernel
