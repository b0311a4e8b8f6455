// One input of the graph deserialiser's fuzz target: bytes that start with '{' are JSON, others binary.
// Shared by the libFuzzer program and by the test that replays its corpus.
#pragma once

#include "trireme/base/bytes.h"
#include "trireme/graph/serialize.h"

namespace trireme::graph {

// Whether the bytes are a graph. What is read must verify and be written back: to the same bytes in binary
// form, to the same graph from JSON.
inline bool run_graph_target(ByteView bytes) {
  const bool json = !bytes.empty() && bytes[0] == std::byte{'{'};
  const Result<Graph> graph = json ? parse_graph_json(as_text(bytes)) : parse_graph(bytes);
  if (!graph.ok()) {
    TR_CHECK(!graph.status().message().empty());
    return false;
  }
  TR_CHECK(verify(*graph).ok(), "{}", verify(*graph).to_string());
  const Bytes again = to_bytes(*graph);
  if (!json) TR_CHECK(again.size() == bytes.size() && std::equal(again.begin(), again.end(), bytes.begin()));
  const Result<Graph> second = parse_graph(again);
  TR_CHECK(second.ok() && second->to_text() == graph->to_text(), "{}", second.status().to_string());
  return true;
}

}  // namespace trireme::graph
