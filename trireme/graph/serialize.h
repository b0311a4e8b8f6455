// Graphs as bytes and as JSON. The formats are specified in docs/format_graph.md.
//
// Reading is safe on hostile input: every count is checked against the bytes that are left before anything is
// allocated, every index against what exists, and types are inferred anew through the OpDefs; stored types
// are only compared with them. What is read verifies (verify()).
#pragma once

#include <string>
#include <string_view>

#include "trireme/base/bytes.h"
#include "trireme/graph/graph.h"

namespace trireme::graph {

// A graph has the first version that can say all of it, so that graphs of plain nodes keep their bytes.
inline constexpr std::uint32_t kPlainGraphVersion = 1;
inline constexpr std::uint32_t kGraphFormatVersion = 2;  // with forms of operands
std::uint32_t version_of(const Graph& graph);

// Equal graphs give equal bytes, on every machine.
Bytes to_bytes(const Graph& graph);
// kCorrupt where the bytes are no graph of these versions; the message says where and what was expected.
Result<Graph> parse_graph(ByteView bytes);

// Fails only where a text is not UTF-8.
Result<std::string> to_json(const Graph& graph);
Result<Graph> parse_graph_json(std::string_view text);

}  // namespace trireme::graph
