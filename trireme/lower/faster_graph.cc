#include "trireme/lower/faster_graph.h"

#include "trireme/graph/pass/pipeline.h"
#include "trireme/kernel/adaptable.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/ops.h"

namespace trireme::lower {
namespace {

using graph::PipelineTarget;
using graph::Precision;
using kernel::cuda::CudaDevice;

Precision precision_of(const Target& target) {
  if (target.precision == "tf32") return Precision::kTf32;
  if (target.precision == "bf16") return Precision::kBf16;
  return target.precision == "f16" ? Precision::kF16 : Precision::kF32;
}

// What the GPU has kernels for: ops that take other dtypes than their own, and images with the channels last;
// attention on the rows of its projection, where all of it is fused; what recurrent layers keep for their
// gradients.
PipelineTarget gpu_target(const Target& target, CudaDevice& gpu) {
  PipelineTarget made{.on_gpu = true, .precision = precision_of(target)};
  graph::PassOptions& options = made.options;
  options.phases = target.phases;
  for (const kernel::cuda::CudaRow& row : kernel::cuda::cuda_kernels()) {
    if (row.adaptable) options.adaptable.insert(row.op);
    if (row.channels_last) options.turnable.insert(row.op);
  }
  options.adaptable.erase("matmul");  // only by widen_products
  options.has_kernel = [&gpu](const graph::Node& node, std::span<const TensorType> inputs) -> Result<bool> {
    TR_ASSIGN_OR_RETURN(const kernel::cuda::CudaRow* row,
                        kernel::cuda::choose_cuda_kernel({*node.def, inputs, node.outputs, node.attrs, gpu}));
    return row->name == std::string_view("cudnn");
  };
  const bool tf32 = made.precision == Precision::kTf32;
  options.reserve_of = [&gpu, tf32](const graph::Node& node,
                                    std::span<const TensorType> inputs) -> std::optional<graph::Reserve> {
    const auto kept =
        kernel::cuda::recurrent_reserve({*node.def, inputs, node.outputs, node.attrs, gpu, tf32});
    if (!kept) return {};
    return graph::Reserve{kept->algorithm, kept->bytes};
  };
  return made;
}

// Whether a convolution has as many input channels as make a pixel worth reading on its own.
bool has_wide_images(const graph::Graph& graph) {
  constexpr std::int64_t kWide = 32;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const graph::Node& node = graph.node(i);
    if (node.def == &op::kConv2d && graph.type(node.inputs[0]).shape[1] >= kWide) return true;
  }
  return false;
}

PipelineTarget cpu_target(const Target& target, const graph::Graph& graph) {
  PipelineTarget made{.precision = precision_of(target), .lowers_gates = kernel::lowers_cpu_gates()};
  graph::PassOptions& options = made.options;
  options.phases = target.phases;
  if (made.precision == Precision::kF32 && has_wide_images(graph))
    options.turnable = kernel::channels_last_cpu_ops(DType::kF32);
  if (made.precision == Precision::kBf16) {
    options.adaptable = kernel::adaptable_cpu_ops();
    options.turnable = kernel::channels_last_cpu_ops(DType::kBF16);
  }
  return made;
}

// Whether every norm that took in what stood around it works on a matrix, as the CPU's kernels do.
bool norms_are_of_matrices(const graph::Graph& graph) {
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const graph::Node& node = graph.node(i);
    const op::OpDef* const def = node.def;
    const bool fused =
        def == &op::kBatchNormRelu || def == &op::kBatchNormReluGrad || def == &op::kBatchNormAddReluGrad;
    if (fused && graph.type(node.inputs[0]).shape.rank() != 2) return false;
  }
  return true;
}

}  // namespace

Result<graph::Graph> faster_graph(const Target& target, const graph::Graph& graph) {
  if (CudaDevice* const gpu = kernel::cuda::as_cuda(target.device))
    return run_pipeline(gpu_target(target, *gpu), graph);
  PipelineTarget cpu = cpu_target(target, graph);
  if (!cpu.options.turnable.empty()) {
    TR_ASSIGN_OR_RETURN(graph::Graph fused, run_pipeline(cpu, graph));
    if (norms_are_of_matrices(fused)) return fused;
  }
  cpu.fuses_norms = false;
  return run_pipeline(cpu, graph);
}

}  // namespace trireme::lower
