#include "trireme/lower/faster_graph.h"

#include <set>

#include "trireme/graph/pass/cancel_transposes.h"
#include "trireme/graph/pass/fuse/bias_convolutions.h"
#include "trireme/graph/pass/fuse/bias_products.h"
#include "trireme/graph/pass/fuse/fuse_and_join.h"
#include "trireme/graph/pass/fuse/join_bias_grads.h"
#include "trireme/graph/pass/fuse/join_gelu_grads.h"
#include "trireme/graph/pass/fuse/join_losses.h"
#include "trireme/graph/pass/fuse/join_norm_sums.h"
#include "trireme/graph/pass/fuse/join_residuals.h"
#include "trireme/graph/pass/fuse/mask_pooled.h"
#include "trireme/graph/pass/fuse/pack_attention.h"
#include "trireme/graph/pass/keep_gates.h"
#include "trireme/graph/pass/keep_places.h"
#include "trireme/graph/pass/norms.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/pass/precision/join_casts.h"
#include "trireme/graph/pass/precision/lower_gates.h"
#include "trireme/graph/pass/precision/lower_recurrences.h"
#include "trireme/graph/pass/precision/narrow_copies.h"
#include "trireme/graph/pass/precision/round_in_products.h"
#include "trireme/graph/pass/precision/widen_products.h"
#include "trireme/graph/pass/scalar_fills.h"
#include "trireme/kernel/adaptable.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/kernel/cuda/recurrent/recurrent_library.h"
#include "trireme/op/fused/adapted.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_qkv.h"

namespace trireme::lower {
namespace {

// Attention works on the rows of its projection where the GPU has fused kernels for all of it.
Result<graph::Graph> packed(const graph::Graph& graph, Device* device) {
  kernel::cuda::CudaDevice* const gpu = kernel::cuda::as_cuda(device);
  if (gpu == nullptr) return graph;
  TR_ASSIGN_OR_RETURN(graph::Graph made, graph::merge_common(graph));
  TR_ASSIGN_OR_RETURN(made, graph::pack_attention(made));
  for (std::int32_t i = 0; i < made.size(); ++i) {
    const graph::Node& node = made.node(i);
    if (node.def != &op::kAttentionQkv && node.def != &op::kAttentionQkvGrad) continue;
    std::vector<TensorType> inputs;
    for (const graph::Value v : node.inputs) inputs.push_back(made.type(v));
    TR_ASSIGN_OR_RETURN(
        const kernel::cuda::CudaRow* row,
        kernel::cuda::choose_cuda_kernel({*node.def, inputs, node.outputs, node.attrs, *gpu}));
    if (row->name != std::string_view("cudnn")) return graph;
  }
  return graph::eliminate_dead_code(made, {});
}

// Recurrent layers keep for their gradients what their kernels want kept, and work in the job's 16 bits.
Result<graph::Graph> with_reserves(const graph::Graph& plain, const Target& target) {
  kernel::cuda::CudaDevice* const gpu = kernel::cuda::as_cuda(target.device);
  if (gpu == nullptr) return plain;
  graph::Graph graph = plain;
  if (target.precision == "bf16" || target.precision == "f16") {
    const DType low = target.precision == "bf16" ? DType::kBF16 : DType::kF16;
    TR_ASSIGN_OR_RETURN(graph, graph::lower_recurrences(graph, low));
    TR_ASSIGN_OR_RETURN(graph, graph::merge_common(graph));
  }
  const bool tf32 = target.precision == "tf32";
  return graph::keep_reserves(
      graph,
      [&](const graph::Node& node, std::span<const TensorType> inputs) -> std::optional<graph::Reserve> {
        const auto kept =
            kernel::cuda::recurrent_reserve({*node.def, inputs, node.outputs, node.attrs, *gpu, tf32});
        if (!kept) return {};
        return graph::Reserve{kept->algorithm, kept->bytes};
      });
}

// Whose kernels take other dtypes than their op has, and images with the channels last.
struct Ops {
  std::set<std::string, std::less<>> adaptable, turnable;
};
Ops gpu_ops() {
  Ops ops;
  for (const kernel::cuda::CudaRow& row : kernel::cuda::cuda_kernels()) {
    if (row.adaptable) ops.adaptable.insert(row.op);
    if (row.channels_last) ops.turnable.insert(row.op);
  }
  ops.adaptable.erase("matmul");  // only by widen_products
  return ops;
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
Ops cpu_ops(const Target& target, const graph::Graph& graph) {
  if (target.precision == "f32")
    return {{}, has_wide_images(graph) ? kernel::channels_last_cpu_ops(DType::kF32) : kernel::OpNames{}};
  if (target.precision != "bf16") return {};
  return {kernel::adaptable_cpu_ops(), kernel::channels_last_cpu_ops(DType::kBF16)};
}

// Whether every norm that took in what stood around it works on a matrix, as the CPU's kernels do.
bool norms_are_of_matrices(const graph::Graph& graph) {
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const graph::Node& node = graph.node(i);
    const op::OpDef* def = node.def;
    if (def == &op::kAdapted) {
      const auto adapted = op::detail::parse_adapted(node.attrs.get_text("program"));
      if (adapted.ok()) def = adapted->def;
    }
    const bool fused =
        def == &op::kBatchNormRelu || def == &op::kBatchNormReluGrad || def == &op::kBatchNormAddReluGrad;
    if (fused && graph.type(node.inputs[0]).shape.rank() != 2) return false;
  }
  return true;
}

Result<graph::Graph> rewritten(const Target& target, const graph::Graph& graph, const Ops& ops,
                               bool fuses_norms) {
  Device* const device = target.device;
  TR_ASSIGN_OR_RETURN(const graph::Graph whole, packed(graph, device));
  TR_ASSIGN_OR_RETURN(graph::Graph merged, graph::merge_common(whole));
  if (device == nullptr) {
    TR_ASSIGN_OR_RETURN(merged, graph::cancel_transposes(merged));
    TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
    if (fuses_norms) {
      TR_ASSIGN_OR_RETURN(merged, graph::fuse_norms(merged));
    }
    TR_ASSIGN_OR_RETURN(merged, graph::keep_gates(merged));
    if (target.precision == "bf16" && kernel::lowers_cpu_gates()) {
      TR_ASSIGN_OR_RETURN(merged, graph::lower_gates(merged, DType::kBF16));
      TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
    }
    if (target.precision == "f32") {
      TR_ASSIGN_OR_RETURN(merged, graph::keep_places(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::mask_pooled(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
    }
  } else {
    TR_ASSIGN_OR_RETURN(merged, graph::join_gelu_grads(merged));
    TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
  }
  TR_ASSIGN_OR_RETURN(merged, with_reserves(merged, target));
  const bool low = target.precision == "bf16" || target.precision == "f16";
  if (device != nullptr || target.precision == "f32" || !ops.turnable.empty()) {
    const auto& [adaptable, turnable] = ops;
    TR_ASSIGN_OR_RETURN(merged, graph::fold_constants(merged));
    TR_ASSIGN_OR_RETURN(merged, graph::merge_common(merged));
    if (device != nullptr) {
      TR_ASSIGN_OR_RETURN(merged, graph::join_losses(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::scalar_fills(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::fuse_norms(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::keep_places(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::mask_pooled(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
    }
    if (low && device != nullptr) {
      TR_ASSIGN_OR_RETURN(merged, graph::bias_products(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
    }
    if (low) {
      TR_ASSIGN_OR_RETURN(merged, graph::widen_products(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::narrow_norms(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::narrow_copies(merged));
      if (device != nullptr) {
        TR_ASSIGN_OR_RETURN(merged, graph::bias_convolutions(merged));
        TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
      }
    }
    if (low || device == nullptr) {
      TR_ASSIGN_OR_RETURN(merged, graph::channels_last(merged, turnable));
    }
    TR_ASSIGN_OR_RETURN(merged, graph::hoist_reshapes(merged));
    if (device != nullptr) {
      TR_ASSIGN_OR_RETURN(merged, graph::join_norm_sums(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::join_residuals(merged));
    }
    TR_ASSIGN_OR_RETURN(merged, graph::absorb_casts(merged, adaptable));
    TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
    if (device != nullptr) {
      TR_ASSIGN_OR_RETURN(merged, graph::fuse_and_join(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::join_bias_grads(merged));
      return graph::join_casts(merged);
    }
    TR_ASSIGN_OR_RETURN(merged, graph::round_in_products(merged));
  }
  return graph::fuse_elementwise(merged);
}

}  // namespace

Result<graph::Graph> faster_graph(const Target& target, const graph::Graph& graph) {
  if (target.device != nullptr) return rewritten(target, graph, gpu_ops(), true);
  const Ops ops = cpu_ops(target, graph);
  if (!ops.turnable.empty()) {
    TR_ASSIGN_OR_RETURN(graph::Graph fused, rewritten(target, graph, ops, true));
    if (norms_are_of_matrices(fused)) return fused;
  }
  return rewritten(target, graph, ops, false);
}

}  // namespace trireme::lower
