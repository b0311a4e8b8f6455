// Passes of one layer of recurrence: see keep_gates.cc.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "trireme/graph/graph.h"

namespace trireme::graph {

// An lstm and its gradient become lstm_kept and lstm_kept_grad: what the gradient needs is kept instead of
// computed again, for 5 T B H more elements between the two. Others stay as they are.
Result<Graph> keep_gates(const Graph& graph);

// What a kernel of an rnn, lstm or gru keeps for the gradient.
struct Reserve {
  std::int64_t algorithm = 0, bytes = 0;
};
using ReserveOf = std::function<std::optional<Reserve>(const Node& node, std::span<const TensorType> inputs)>;
// An rnn, lstm or gru and its gradient become recurrent_kept and recurrent_kept_grad where `reserve_of` has
// an answer. Others stay as they are.
Result<Graph> keep_reserves(const Graph& graph, const ReserveOf& reserve_of);

}  // namespace trireme::graph
