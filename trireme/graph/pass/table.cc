// Every pass by name, in the order in which they are best run: what simplifies first, what needs gradients
// (or must not come before them) later, memory last.
#include <array>

#include "trireme/graph/pass/cancel_transposes.h"
#include "trireme/graph/pass/fuse/bias_convolutions.h"
#include "trireme/graph/pass/fuse/bias_products.h"
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

namespace trireme::graph {

std::span<const PassRow> pass_table() {
  static constexpr std::array kTable{
      PassRow{"specialise", "Puts a batch size in the place of the unknown one.", Exactness::kExact,
              [](const Graph& g, const PassOptions& o) -> Result<Graph> {
                if (o.batch == 0) return g;
                return specialise(g, o.batch);
              }},
      PassRow{"lower_precision",
              "Computes products in bf16 or f16; variables and outputs stay f32. Before gradients.",
              Exactness::kTolerant,
              [](const Graph& g, const PassOptions& o) { return lower_precision(g, o.dtype); }},
      PassRow{"dead_code", "Leaves out nodes that no wanted output needs.", Exactness::kExact,
              [](const Graph& g, const PassOptions& o) { return eliminate_dead_code(g, o.keep_outputs); }},
      PassRow{"cse", "Computes equal expressions once.", Exactness::kExact,
              [](const Graph& g, const PassOptions&) { return merge_common(g); }},
      PassRow{"fold", "Evaluates small elementwise and array ops of constants.", Exactness::kExact,
              [](const Graph& g, const PassOptions& o) { return fold_constants(g, o.fold_bytes); }},
      PassRow{"fuse_epilogues", "Makes matmul or conv2d, bias_add and relu one node. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return fuse_epilogues(g); }},
      PassRow{"fuse_norms", "Makes batch_norm, a residual and relu one node. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return fuse_norms(g); }},
      PassRow{"narrow_norms", "Keeps what batch norms make of 16-bit images in 16 bits. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return narrow_norms(g); }},
      PassRow{"keep_places", "Keeps where maxima of pooling are instead of their images. After gradients.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return keep_places(g); }},
      PassRow{"mask_pooled",
              "Applies the mask of relu to the gradient of what was pooled. After keep_places.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return mask_pooled(g); }},
      PassRow{"narrow_copies",
              "Lets pooling and gradients of activations and biases read bf16 copies. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return narrow_copies(g); }},
      PassRow{"bias_convolutions",
              "Adds biases and relu within convolutions where the sum is read in 16 bits. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return bias_convolutions(g); }},
      PassRow{"channels_last", "Keeps images between convolutions with the channels last. After gradients.",
              Exactness::kTolerant,
              [](const Graph& g, const PassOptions& o) { return channels_last(g, o.turnable); }},
      PassRow{"pack_attention", "Lets attention work on the rows of its projection. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return pack_attention(g); }},
      PassRow{"cancel_transposes", "Leaves out transposes that undo each other. After gradients.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return cancel_transposes(g); }},
      PassRow{"keep_gates", "Keeps the gates of lstm for its gradient. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return keep_gates(g); }},
      PassRow{"lower_gates", "Computes lstm and its gradient in 16 bits. After keep_gates.",
              Exactness::kTolerant,
              [](const Graph& g, const PassOptions& o) { return lower_gates(g, o.dtype); }},
      PassRow{"join_gelu_grads", "Computes the gradient of gelu in one op. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return join_gelu_grads(g); }},
      PassRow{"lower_recurrences", "Computes recurrent layers in bf16 or f16. After gradients.",
              Exactness::kTolerant,
              [](const Graph& g, const PassOptions& o) { return lower_recurrences(g, o.dtype); }},
      PassRow{"keep_reserves", "Keeps bytes of a recurrent kernel's own for its gradient. After gradients.",
              Exactness::kTolerant,
              [](const Graph& g, const PassOptions&) {
                return keep_reserves(g, [](const Node&, std::span<const TensorType>) { return Reserve{}; });
              }},
      PassRow{"join_losses", "Reads the logits of a loss once for all that is made of them. After gradients.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return join_losses(g); }},
      PassRow{"bias_products",
              "Adds biases within products where the sum is read in 16 bits. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return bias_products(g); }},
      PassRow{"scalar_fills", "Makes tensors of one value scalars where they are broadcast. After gradients.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return scalar_fills(g); }},
      PassRow{"widen_products", "Keeps gradients of weights in f32 from the product on. After gradients.",
              Exactness::kTolerant, [](const Graph& g, const PassOptions&) { return widen_products(g); }},
      PassRow{"hoist_reshapes", "Computes elementwise ops before reshapes instead of after. After gradients.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return hoist_reshapes(g); }},
      PassRow{"join_norm_sums",
              "Adds the gradient of a residual where a layer norm's is made. After gradients.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return join_norm_sums(g); }},
      PassRow{"join_residuals",
              "Adds a branch to its residual where a layer norm reads the sum. After gradients.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return join_residuals(g); }},
      PassRow{"absorb_casts", "Makes casts of 16-bit values part of the ops beside them. After gradients.",
              Exactness::kExact,
              [](const Graph& g, const PassOptions& o) { return absorb_casts(g, o.adaptable); }},
      PassRow{"round_in_products",
              "Rounds weights within products instead of keeping rounded copies. After gradients.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return round_in_products(g); }},
      PassRow{"fuse", "Makes elementwise ops of one shape one node. After gradients.", Exactness::kExact,
              [](const Graph& g, const PassOptions&) { return fuse_elementwise(g); }},
      PassRow{"join_bias_grads",
              "Adds up the gradient of a bias where a fused group makes its rows. After fuse.",
              Exactness::kExact, [](const Graph& g, const PassOptions&) { return join_bias_grads(g); }},
      PassRow{"join_casts", "Casts variables to 16 bits in one op. After gradients.", Exactness::kExact,
              [](const Graph& g, const PassOptions&) { return join_casts(g); }},
      PassRow{"recompute", "Computes cheap values again instead of keeping them, under a memory limit.",
              Exactness::kExact,
              [](const Graph& g, const PassOptions& o) -> Result<Graph> {
                if (o.memory_limit_bytes == 0) return g;
                return recompute(g, o.memory_limit_bytes);
              }},
      PassRow{"schedule_receives", "Starts each recv just in time, by the critical path.", Exactness::kExact,
              [](const Graph& g, const PassOptions& o) { return schedule_receives(g, o.machine, o.link); }},
  };
  return kTable;
}

const PassRow* find_pass(std::string_view name) {
  for (const PassRow& row : pass_table())
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace trireme::graph
