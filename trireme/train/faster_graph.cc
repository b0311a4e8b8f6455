#include "trireme/train/faster_graph.h"

#include <set>

#include "trireme/graph/pass/fuse_and_join.h"
#include "trireme/graph/pass/keep_places.h"
#include "trireme/graph/pass/norms.h"
#include "trireme/graph/pass/pack_attention.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/kernel/cuda/cuda.h"
#include "trireme/op/sequence/attention_qkv.h"

namespace trireme::train {
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

}  // namespace

Result<graph::Graph> faster_graph(const Job& job, const graph::Graph& graph, Device* device) {
  TR_ASSIGN_OR_RETURN(const graph::Graph whole, packed(graph, device));
  TR_ASSIGN_OR_RETURN(graph::Graph merged, graph::merge_common(whole));
  if (device != nullptr) {
    std::set<std::string, std::less<>> adaptable, turnable;
    for (const kernel::cuda::CudaRow& row : kernel::cuda::cuda_kernels()) {
      if (row.adaptable) adaptable.insert(row.op);
      if (row.channels_last) turnable.insert(row.op);
    }
    TR_ASSIGN_OR_RETURN(merged, graph::fold_constants(merged));
    TR_ASSIGN_OR_RETURN(merged, graph::merge_common(merged));
    TR_ASSIGN_OR_RETURN(merged, graph::fuse_norms(merged));
    TR_ASSIGN_OR_RETURN(merged, graph::keep_places(merged));
    if (job.train.precision == "bf16" || job.train.precision == "f16") {
      TR_ASSIGN_OR_RETURN(merged, graph::narrow_norms(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::narrow_masks(merged));
      TR_ASSIGN_OR_RETURN(merged, graph::channels_last(merged, turnable));
    }
    TR_ASSIGN_OR_RETURN(merged, graph::hoist_reshapes(merged));
    TR_ASSIGN_OR_RETURN(merged, graph::absorb_casts(merged, adaptable));
    TR_ASSIGN_OR_RETURN(merged, graph::eliminate_dead_code(merged, {}));
    return graph::fuse_and_join(merged);
  }
  return graph::fuse_elementwise(merged);
}

}  // namespace trireme::train
