#include "trireme/graph/pass/strand_order.h"

#include <algorithm>

namespace trireme::graph {
namespace {

using Edge = std::pair<std::int32_t, std::int32_t>;

std::vector<Edge> strand_edges(const Graph& graph, const MemoryRequest& request,
                               const ValueMap<Value>& roots) {
  std::vector<Edge> edges = request.strand_order;
  const auto deps = run_dependencies(graph, roots);
  for (std::size_t i = 0; i < deps.size(); ++i)
    for (const std::int32_t d : deps[i]) {
      const std::int32_t from = request.strand[static_cast<std::size_t>(d)], to = request.strand[i];
      if (from != to) edges.emplace_back(from, to);
    }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

}  // namespace

Result<HappensBefore> HappensBefore::make(const Graph& graph, const MemoryRequest& request,
                                          const ValueMap<Value>& roots) {
  HappensBefore before;
  before.phase_ = request.phase;
  if (request.strand.empty()) return before;
  TR_CHECK(request.strand.size() == static_cast<std::size_t>(graph.size()), "one strand per node");
  before.strand_ = request.strand;
  std::int32_t max_strand = 0;
  for (std::int32_t i = 0; i < graph.size(); ++i)
    if (!is_free(graph, i, roots)) max_strand = std::max(max_strand, before.strand(i));
  for (const auto& [from, to] : request.strand_order) max_strand = std::max({max_strand, from, to});

  const auto n = static_cast<std::size_t>(max_strand) + 1;
  before.words_ = (n + 63) / 64;
  before.reach_.assign(n * before.words_, 0);
  std::vector<std::vector<std::int32_t>> next(n);
  std::vector<int> waiting(n, 0);
  for (const auto& [from, to] : strand_edges(graph, request, roots)) {
    TR_CHECK(from >= 0 && to >= 0, "a node that runs has no strand");
    next[static_cast<std::size_t>(from)].push_back(to);
    ++waiting[static_cast<std::size_t>(to)];
  }
  std::vector<std::int32_t> ready;
  for (std::size_t s = 0; s < n; ++s)
    if (waiting[s] == 0) ready.push_back(static_cast<std::int32_t>(s));
  for (std::size_t at = 0; at < ready.size(); ++at) {
    const auto s = static_cast<std::size_t>(ready[at]);
    for (const std::int32_t t : next[s]) {
      std::uint64_t* row = &before.reach_[static_cast<std::size_t>(t) * before.words_];
      for (std::size_t w = 0; w < before.words_; ++w) row[w] |= before.reach_[s * before.words_ + w];
      row[s / 64] |= std::uint64_t{1} << (s % 64);
      if (--waiting[static_cast<std::size_t>(t)] == 0) ready.push_back(t);
    }
  }
  if (ready.size() != n)
    return error(Code::kInvalid, "[graph] memory plan: {} of {} strands wait for each other in a circle",
                 n - ready.size(), n);
  return before;
}

}  // namespace trireme::graph
