// Which Values share memory whatever a planner does, and what must run before what because of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme::graph {

// One T per Value of a graph, flat.
template <typename T>
class ValueMap {
 public:
  explicit ValueMap(const Graph& graph, T initial = {}) {
    base_.reserve(static_cast<std::size_t>(graph.size()) + 1);
    std::size_t total = 0;
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      base_.push_back(total);
      total += graph.node(i).outputs.size();
    }
    base_.push_back(total);
    items_.assign(total, initial);
  }
  std::size_t id(Value v) const {
    return base_[static_cast<std::size_t>(v.node)] + static_cast<std::size_t>(v.index);
  }
  typename std::vector<T>::reference operator[](Value v) { return items_[id(v)]; }
  typename std::vector<T>::const_reference operator[](Value v) const { return items_[id(v)]; }
  std::size_t size() const { return items_.size(); }

 private:
  std::vector<std::size_t> base_;
  std::vector<T> items_;
};

// What an output shares memory with by nature: reshape and stop_gradient share their input, a mutator's
// output k its k-th mutated input. Null when the output has memory of its own. A reshape whose output is
// pinned elsewhere is a copy: callers ask is_copy.
Value natural_alias(const Graph& graph, Value v);

// Values to their storage: the first Value of the chain of natural aliases. `pinned` Values start a storage
// of their own unless they are a mutator's.
ValueMap<Value> storage_roots(const Graph& graph, std::span<const Value> pinned = {});

// True when the node runs nothing: a feed, or a reshape or stop_gradient that is an alias.
bool is_free(const Graph& graph, std::int32_t node, const ValueMap<Value>& roots);

// For every node that runs, the nodes that run and must end before it, ascending: producers of inputs
// (through aliases), control edges, and readers of a variable before its mutator.
std::vector<std::vector<std::int32_t>> run_dependencies(const Graph& graph, const ValueMap<Value>& roots);

}  // namespace trireme::graph
