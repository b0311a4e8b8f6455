// StoredOptions: how every node of a graph is cut, in words that a plan keeps. Pure.
//
// Which option a node takes is decided once, by the prices of one rank. All ranks, and a resumed run, cut the
// graph by these words, whatever prices they would see.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/parallel/shard/shard_graph.h"

namespace trireme::parallel {

struct StoredOptions {
  // Each option once: the cuts of inputs and outputs, "1 r>p". A cut is r (whole), p (partial sum), m
  // (partial maximum), or a dimension with its blocks and unit: "1", "1x3", "1x3u16". A rewritten option ends
  // with "*".
  std::vector<std::string> options;
  std::vector<std::int32_t> nodes;  // per node of the graph: its option

  bool empty() const { return nodes.empty(); }
  // The nodes as text: "0 0 1 5x2" has option 2 five times at its end. kCorrupt where it is no such text.
  std::string nodes_text() const;
  static Result<std::vector<std::int32_t>> parse_nodes(std::string_view text);
  friend bool operator==(const StoredOptions&, const StoredOptions&) = default;
};

StoredOptions store_options(const AxisLayouts& layouts);
// kInvalid: the graph has other nodes, or a node has no such option any more.
Result<AxisLayouts> restore_options(const graph::Graph& graph, const ShardAxis& axis,
                                    const StoredOptions& stored);

}  // namespace trireme::parallel
