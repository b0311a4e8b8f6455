// What passes share: copying a graph node by node into a new one, with replacements on the way. Internal to
// passes.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/graph/graph.h"
#include "trireme/graph/storage.h"

namespace trireme::graph {

// Walk the old graph in node order and, for every node, either copy() it or map() all its outputs to Values
// of the new graph; nodes whose outputs nobody reads any more may be left out. finish() sets the named
// outputs.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }
  const Graph& to() const { return to_; }
  Value at(Value old) const { return values_[old]; }  // null: not there (yet)
  std::vector<Value> at(std::span<const Value> old) const;

  // The old node with its name, site, forms and control edges, its inputs as they are mapped now.
  Result<Value> copy(std::int32_t id);
  Result<Value> copy(std::int32_t id, std::vector<Value> inputs, Attrs attrs);
  void map(Value old, Value now) { values_[old] = now; }
  // A new node: its name is one that the old graph does not have.
  Result<Value> add(const OpDef& def, std::vector<Value> inputs, Attrs attrs, std::string_view name,
                    std::string_view site, Forms forms = {});
  // The same with the name of an old node that is not copied itself.
  Result<Value> add_in_place_of(std::int32_t id, const OpDef& def, std::vector<Value> inputs, Attrs attrs,
                                Forms forms = {});
  // In place of an old node: `def` of `inputs` and of `bias` cast to `low`, its result cast to f32 and mapped
  // to the old node's.
  Status put_biased(std::int32_t id, const OpDef& def, std::vector<Value> inputs, Value bias, DType low,
                    Attrs attrs);
  // The new place of a copied node, or -1.
  std::int32_t moved(std::int32_t id) const { return nodes_[static_cast<std::size_t>(id)]; }

  Result<Graph> finish();

 private:
  const Graph& from_;
  Graph to_;
  ValueMap<Value> values_;
  std::vector<std::int32_t> nodes_;
  std::set<std::string, std::less<>> names_;  // of the old graph and of new nodes
};

// Nodes that a pass may merge, move, fold or recompute: pure functions of their inputs that no control edge
// touches. Random ops are pure, but their streams are never merged: `may_be_random` says whether they count.
std::vector<bool> movable_nodes(const Graph& graph, bool may_be_random);

std::vector<TensorType> input_types(const Graph& graph, const Node& node);

// Nodes that read each Value, ascending, once each.
ValueMap<std::vector<std::int32_t>> users_of(const Graph& graph);

// What passes ask about the graph that they look at: what may move, who reads, what is an output.
class Overview {
 public:
  explicit Overview(const Graph& graph, bool may_be_random = false);

  bool movable(std::int32_t id) const { return movable_[static_cast<std::size_t>(id)]; }
  // A movable node of that op with plain operands.
  bool is(std::int32_t id, const OpDef& def) const { return graph_.node(id).is(def) && movable(id); }
  const std::vector<std::int32_t>& readers(Value v) const { return users_[v]; }
  bool is_output(Value v) const { return is_output_[v]; }
  // Nobody else reads it, and it is no output of the graph.
  bool has_one_reader(Value v) const { return !is_output_[v] && users_[v].size() == 1; }
  bool only_for(Value v, std::int32_t reader) const { return has_one_reader(v) && users_[v][0] == reader; }

 protected:
  const Graph& graph_;

 private:
  std::vector<bool> movable_;
  ValueMap<std::vector<std::int32_t>> users_;
  ValueMap<bool> is_output_;
};

// A pass with state of its own.
class RewritingPass : protected Overview {
 protected:
  explicit RewritingPass(const Graph& graph) : Overview(graph), rewriter_(graph) {}

  Rewriter rewriter_;
};

// Nodes that change the storage of a variable, ascending, by storage root (see storage_roots).
class Mutations {
 public:
  explicit Mutations(const Graph& graph);
  // Whether the memory behind `v` is changed by a node between `first` and `last` (both excluded).
  bool between(Value v, std::int32_t first, std::int32_t last) const;

 private:
  ValueMap<Value> roots_;
  ValueMap<std::vector<std::int32_t>> changed_at_;
};

// Bytes that are equal exactly when the attributes are (floats by their bits).
void append_attrs(std::string& out, const Attrs& attrs);

}  // namespace trireme::graph
