#include "trireme/comm/host_room.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/comm/pieces.h"

namespace trireme::comm {
namespace {

using collective::Kind;
using graph::Graph;
using graph::Node;

std::int64_t bytes_of(const TensorType& type) { return static_cast<std::int64_t>(type.num_bytes()); }

// Memory that host_ops.cc packs pieces in.
using Packs = std::vector<std::int64_t> (*)(const TensorType& in, const Node& node);

std::vector<std::int64_t> packs_nothing(const TensorType& /*in*/, const Node& /*node*/) { return {}; }
std::vector<std::int64_t> packs_gathered(const TensorType& /*in*/, const Node& node) {
  const TensorType& whole = node.outputs[0];
  if (PieceSpans::of(node.attrs, whole).are_packed()) return {};
  return {bytes_of(whole)};
}
std::vector<std::int64_t> packs_input(const TensorType& in, const Node& /*node*/) { return {bytes_of(in)}; }
std::vector<std::int64_t> packs_both(const TensorType& in, const Node& node) {
  return {bytes_of(in), bytes_of(node.outputs[0])};
}
// As much goes to neighbors as comes from them.
std::vector<std::int64_t> packs_edges(const TensorType& in, const Node& node) {
  const std::int64_t more = std::max<std::int64_t>(0, bytes_of(node.outputs[0]) - bytes_of(in));
  return {more, more};
}

struct Row {
  std::string_view op;
  Packs packs;
  Kind kind = Kind::kBarrier;  // of the tree that adds; barrier: nothing is added
};
constexpr Row kRows[] = {{"all_to_all", packs_both},
                         {"allgather", packs_gathered},
                         {"allreduce", packs_nothing, Kind::kAllreduce},
                         {"broadcast", packs_nothing},
                         {"halo_exchange", packs_edges},
                         {"recv", packs_nothing},
                         {"reduce_scatter", packs_input, Kind::kReduceScatter},
                         {"send", packs_nothing}};

// Scratch of the program that adds, of the first rank.
Result<std::vector<std::int64_t>> program_scratch(const Row& row, const TensorType& in, const Node& node,
                                                  const HostRoomOptions& o) {
  const bool in_place = o.direct && row.kind == Kind::kAllreduce;
  if (row.kind == Kind::kBarrier || in_place || o.world < 2) return std::vector<std::int64_t>();
  collective::ScheduleSpec spec{.kind = row.kind, .count = in.shape.num_elems()};
  spec.world = o.world;
  spec.elem_bytes = static_cast<std::int32_t>(dtype_size(in.dtype));
  if (row.kind == Kind::kReduceScatter) spec.counts = PieceSpans::of(node.attrs, in).counts();
  if (spec.count == 0) return std::vector<std::int64_t>();
  TR_ASSIGN_OR_RETURN(const collective::Algorithm* tree, collective::find_algorithm(row.kind, "fixed-tree"));
  TR_ASSIGN_OR_RETURN(collective::RankProgram program, tree->build(spec, 0));
  for (std::int64_t& elems : program.scratch_elems) elems *= spec.elem_bytes;
  return std::move(program.scratch_elems);
}

// Memory that is lent, given back and kept: the smallest free piece that is large enough, or a new one.
class Kept {
 public:
  std::int64_t lend(std::int64_t bytes) {
    const auto best = std::lower_bound(free_.begin(), free_.end(), bytes);
    if (best == free_.end()) {
      total_ += bytes;
      return bytes;
    }
    const std::int64_t piece = *best;
    free_.erase(best);
    return piece;
  }
  void give_back(std::int64_t piece) {
    free_.insert(std::upper_bound(free_.begin(), free_.end(), piece), piece);
  }
  std::int64_t total_bytes() const { return total_; }

 private:
  std::vector<std::int64_t> free_;  // ascending
  std::int64_t total_ = 0;
};

// Measured: seldom are more collectives of a graph under way at once.
constexpr std::size_t kAtOnce = 4;

struct UnderWay {
  std::int32_t begin = 0, end = 0;  // nodes
  std::vector<std::int64_t> needs;
};

Result<std::vector<UnderWay>> all_under_way(const Graph& g, const HostRoomOptions& o) {
  // What nobody reads is over as soon as its turn has come.
  std::vector<std::int32_t> first_use(static_cast<std::size_t>(g.size()));
  std::iota(first_use.begin(), first_use.end(), 1);
  for (std::int32_t i = g.size() - 1; i >= 0; --i)
    for (const graph::Value v : g.node(i).inputs) first_use[static_cast<std::size_t>(v.node)] = i;
  std::vector<UnderWay> all;
  for (std::int32_t i = 0; i < g.size(); ++i) {
    const Node& node = g.node(i);
    const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const Row& r) { return r.op == node.def->name; });
    if (row == std::end(kRows) || node.inputs.empty()) continue;
    const TensorType& in = g.type(node.inputs[0]);
    UnderWay call{.begin = 0, .end = first_use[static_cast<std::size_t>(i)], .needs = row->packs(in, node)};
    for (const graph::Value v : node.inputs) call.begin = std::max(call.begin, v.node);
    TR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> scratch, program_scratch(*row, in, node, o));
    call.needs.insert(call.needs.end(), scratch.begin(), scratch.end());
    if (!call.needs.empty()) all.push_back(std::move(call));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  for (std::size_t k = 0; k + kAtOnce < all.size(); ++k)
    all[k].end = std::min(all[k].end, all[k + kAtOnce].begin);
  return all;
}

}  // namespace

Result<std::int64_t> host_room(const Graph& graph, const HostRoomOptions& o) {
  TR_ASSIGN_OR_RETURN(const std::vector<UnderWay> calls, all_under_way(graph, o));
  Kept kept;
  struct Lent {
    std::int32_t end;
    std::int64_t piece;
  };
  std::vector<Lent> lent;
  for (const UnderWay& call : calls) {
    std::erase_if(lent, [&](const Lent& l) {
      if (l.end <= call.begin) kept.give_back(l.piece);
      return l.end <= call.begin;
    });
    for (const std::int64_t bytes : call.needs)
      if (bytes > 0) lent.push_back({call.end, kept.lend(bytes)});
  }
  return kept.total_bytes();
}

}  // namespace trireme::comm
