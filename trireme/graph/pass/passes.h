// Graph -> Graph functions, one file each; pass/pipeline.cc lists them. Every pass keeps named outputs,
// parameter names, control order, random streams and the order of mutations, and leaves a graph that
// verifies. An exact pass keeps the bits of every output; a tolerant one changes them within what the dtype
// rounds.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::graph {

// Adds nodes that compute d loss / d wrt[i] and returns their Values (a fill of zeros where loss does not
// depend on it). `loss` is a scalar. Gradients of a value with several uses are added in the order of the
// uses. Ordinary nodes: higher orders work where the ops used have gradients.
Result<std::vector<Value>> add_gradients(Graph& graph, Value loss, std::span<const Value> wrt);
// The same for any values: sum_i <grad_ys[i], ys[i]> is differentiated, where grad_ys[i] has the type of
// ys[i] and counts as constant. A null grad_ys[i] stands for ones.
Result<std::vector<Value>> add_gradients(Graph& graph, std::span<const Value> ys,
                                         std::span<const Value> grad_ys, std::span<const Value> wrt);

// Keeps what the named outputs need (all outputs when empty), stateful nodes that an output names, and
// control order.
Result<Graph> eliminate_dead_code(const Graph& graph, std::span<const std::string> keep_outputs);

// Computes cheap values (few flops per byte: elementwise, norms, dropout, moves) again where they are read
// late, instead of keeping them, until plan_memory needs at most `limit_bytes`; most bytes saved per flop
// come first. `outputs_are_pinned`: their memory is given from outside and not counted. kExhausted, with the
// least that was reached, when that is not enough. Exact.
Result<Graph> recompute(const Graph& graph, std::int64_t limit_bytes, bool outputs_are_pinned = false);

// Mixed precision: products (matmul, convolutions, attention...) of f32 values are computed in `dtype` (bf16
// or f16), everything else and all variables and outputs stay f32. Run it before gradients: they come back as
// f32 through the casts. Tolerant.
Result<Graph> lower_precision(const Graph& graph, DType dtype);

// A graph whose inputs have the size kUnknownDim is a template for any batch. Puts `batch` in its place, in
// input shapes, in attributes that state shapes (OpDef::shape_attr) and so in all types: a*? + c becomes
// a*batch + c. Fails, naming the node, where an attribute still depends on the unknown size. Exact.
Result<Graph> specialise(const Graph& graph, std::int64_t batch);

// Whether a graph has collectives or messages (op/comm), so that its runs meet those of other ranks.
bool has_collectives(const Graph& graph);
// Gives them slots where they have none (-1), in node order: those from `first` on that no other node has.
// Ranks whose graphs have the same ones in the same order number them alike. kExhausted where `num_slots` are
// too few. Exact.
Result<Graph> number_slots(const Graph& graph, std::int64_t first, std::int64_t num_slots);

// ---- The table of passes
enum class Exactness : std::uint8_t { kExact, kTolerant };

// What a kernel of an rnn, lstm or gru keeps for the gradient.
struct Reserve {
  std::int64_t algorithm = 0, bytes = 0;
};
using ReserveOf = std::function<std::optional<Reserve>(const Node& node, std::span<const TensorType> inputs)>;
using KernelTest = std::function<Result<bool>(const Node& node, std::span<const TensorType> inputs)>;

// What the passes of the table take beside the graph; each reads its own.
struct PassOptions {
  std::vector<std::string> keep_outputs = {};         // dead_code: empty keeps all
  std::int64_t fold_bytes = 4096;                     // fold
  std::int64_t memory_limit_bytes = 0;                // recompute: 0 leaves the graph as it is
  DType dtype = DType::kBF16;                         // lower_precision, lower_gates, lower_recurrences
  std::set<std::string, std::less<>> turnable = {};   // channels_last
  std::set<std::string, std::less<>> adaptable = {};  // absorb_casts
  KernelTest has_kernel = {};                         // pack_attention: empty says yes of every node
  ReserveOf reserve_of = {};                          // keep_reserves: empty keeps no bytes of any
  bool join_results = false;                          // fuse
  // fuse: the outputs that each phase of a run makes; none: there is one. A node is of the first phase that
  // needs it, and nodes of different phases are not joined, since what the later one reads has not come.
  std::vector<std::vector<std::string>> phases = {};
  std::int64_t batch = 0;           // specialise: 0 leaves the graph as it is
  cost::MachineModel machine = {};  // schedule_receives
  cost::LinkModel link = {};        // schedule_receives
};

// A pass; the constant that describes it stands in its file.
struct PassRow {
  std::string_view name;
  std::string_view doc;
  Exactness exactness;
  Result<Graph> (*run)(const Graph& graph, const PassOptions& options);
};
std::span<const PassRow> pass_table();            // all of them; pass/pipeline.h has their order
const PassRow* find_pass(std::string_view name);  // null when unknown

// Where each Value lives: in one arena, or beside it in scratch memory. Offsets are 64-byte aligned. Values
// that live elsewhere (feeds, variables, bound outputs, reshapes of them) have offset -1 or alias another
// Value.
struct MemoryPlan {
  struct Place {
    std::int64_t offset =
        -1;                // in the arena, or -1; an alias of a Value in the arena has that Value's offset
    Value alias_of;        // shares the memory of that Value (in-place op, reshape, mutator), or null
    bool scratch = false;  // the offset is one of scratch memory
  };
  std::vector<std::vector<Place>> places;  // [node][output]
  std::int64_t arena_bytes = 0;
  std::int64_t scratch_bytes = 0;
};

// Plans for execution in node order. `pinned`: Values whose memory is given from outside (bindings): neither
// moved nor reused; a pinned reshape is a copy. Outputs of the graph keep their memory to the end.
// `workspace_bytes[node]`: reserved while that node runs, returned as workspace_offsets.
struct MemoryRequest {
  std::vector<Value> pinned = {};
  std::vector<std::int64_t> workspace_bytes = {};  // per node; may be empty
  // Nodes may run at the same time when their strands do: strand[i] is the strand of node i (any number for
  // nodes that run nothing); values of different strands never share memory unless a dependency orders them.
  // A strand starts when all strands that its nodes depend on have ended. Empty: strictly in node order.
  std::vector<std::int32_t> strand = {};
  // Strands that the caller orders beyond what the graph demands: (earlier, later).
  std::vector<std::pair<std::int32_t, std::int32_t>> strand_order = {};
  // The phase of each node, ascending: all nodes of a phase have ended before one of the next starts, and no
  // strand lies in two. Memory that one phase alone uses, workspaces among it, is then scratch memory: what
  // is in there may be lost between phases. Empty: everything is in the arena.
  std::vector<std::int32_t> phase = {};
};
struct MemoryResult {
  MemoryPlan plan;
  std::vector<std::int64_t> workspace_offsets;  // -1 where none; in scratch memory where there are phases
};
Result<MemoryResult> plan_memory(const Graph& graph, const MemoryRequest& request);

}  // namespace trireme::graph
