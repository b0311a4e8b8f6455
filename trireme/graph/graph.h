// Graph: the only program form. Nodes are OpDef applications in topological order; edges are Values (node,
// output index).
//
// A Graph is a value: copy it, rewrite it, print it. Node ids are positions: inputs always have smaller ids.
// Outputs are named; passes keep them. Parameters are `variable` nodes whose path names are fixed when built
// and survive every pass.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/status.h"
#include "trireme/op/op.h"

namespace trireme::graph {

using op::Attrs;
using op::Forms;
using op::OpDef;
using op::Value;

struct Node {
  const OpDef* def = nullptr;
  std::vector<Value> inputs;
  std::vector<std::int32_t> control;  // nodes that must run before this one
  Attrs attrs;                        // complete
  std::vector<TensorType> outputs;    // as they are in memory
  std::string name;                   // path such as "conv1/conv2d"; unique
  std::string site;                   // where it was built, "model/layers.cc:42"; empty where nobody said
  // How operands differ from what the op is defined on; empty lists: plain. A pass that looks for an op with
  // plain operands asks is().
  Forms forms = {};

  bool is(const OpDef& op) const { return def == &op && forms.is_plain(); }
};

// A line of source code, for errors. As a default argument `Site::here()` is the caller's line. (GCC's and
// clang 14's builtins: std::source_location is not there in both.)
struct Site {
  const char* file = nullptr;
  int line = 0;
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  // The last folder and the file, so that graphs do not depend on where the sources lie:
  // "model/layers.cc:42".
  std::string to_string() const;
};

class Graph {
 public:
  // Adds a node after checking inputs, attributes and types. The error names the op, the scope it was built
  // in and the site. Names: `name` (default: the op's name; for `input` and `variable` their `name`
  // attribute, without the scope) below the scope, with a number where it is taken. A second input or
  // variable of one `name` attribute fails (kExists).
  Result<Value> add(const OpDef& def, std::vector<Value> inputs, Attrs attrs = {}, std::string_view name = "",
                    std::string_view site = "", Forms forms = {});
  // A node like one of another graph, with inputs of this one; without its control edges.
  Result<Value> add_like(const Node& node, std::vector<Value> inputs);
  // A control edge: `after` runs after `before`, though it reads nothing of it.
  void add_control(std::int32_t before, std::int32_t after);

  std::int32_t size() const { return static_cast<std::int32_t>(nodes_.size()); }
  const Node& node(std::int32_t id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const TensorType& type(Value v) const { return node(v.node).outputs[static_cast<std::size_t>(v.index)]; }

  // Outputs: what a run may fetch, by name. Setting a name again replaces it.
  void set_output(std::string name, Value v);
  const std::vector<std::pair<std::string, Value>>& outputs() const { return outputs_; }
  std::optional<Value> find_output(std::string_view name) const;

  // Nodes of op `input` and `variable` by their `name` attribute.
  std::optional<Value> find_input(std::string_view name) const;
  std::optional<Value> find_variable(std::string_view name) const;
  std::vector<std::pair<std::string, Value>> variables() const;  // in name order

  // Names given to later nodes get this prefix ("conv1/").
  void push_scope(std::string_view name);
  void pop_scope();
  std::string scope() const;  // the prefix now: "" or "conv1/"

  std::string to_text() const;  // one line per node
  std::string to_dot() const;

 private:
  std::optional<Value> find_feed(const OpDef& def, std::string_view name) const;
  std::string unique_name(std::string wanted);
  std::vector<Node> nodes_;
  std::vector<std::pair<std::string, Value>> outputs_;
  std::vector<std::string> scopes_;
  std::map<std::string, int, std::less<>> used_names_;
  std::map<std::pair<const OpDef*, std::string>, std::int32_t> feeds_;  // by op and `name` attribute
};

// Checks every invariant (order, types against inference, unique names, mutation order); names the first bad
// node. Mutation order: only variables are mutated, and after a mutation the variable is read through the
// mutator's output only, so that node order alone says which value a reader gets.
Status verify(const Graph& graph);

// Sum of the nodes' costs; nodes without a cost function count their bytes.
cost::OpCost total_cost(const Graph& graph);
cost::OpCost node_cost(const Graph& graph, std::int32_t id);

}  // namespace trireme::graph
