// Graph as text (one line per node) and as Graphviz input.
#include <fmt/format.h>
#include <type_traits>

#include "trireme/graph/graph.h"
#include "trireme/op/forms.h"

namespace trireme::graph {
namespace {

// Printable ASCII stays as it is; quotes, backslashes and everything else are escaped, so that one node is
// one line whatever its texts hold. Graphviz reads the same escapes.
std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (u < 0x20 || u == 0x7F) {
      quoted += fmt::format("\\x{:02x}", u);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string attr_text(const op::AttrValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return quote(v);
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          return fmt::format("[{}]", fmt::join(v, ", "));
        } else if constexpr (std::is_same_v<T, DType>) {
          return std::string(dtype_name(v));
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

std::string value_text(Value v) {
  return v.index == 0 ? fmt::format("%{}", v.node) : fmt::format("%{}:{}", v.node, v.index);
}

std::string types_text(const Node& node) {
  std::string text;
  for (const TensorType& t : node.outputs) text += (text.empty() ? "" : ", ") + t.to_string();
  return text;
}

}  // namespace

std::string Graph::to_text() const {
  std::string text;
  for (std::int32_t i = 0; i < size(); ++i) {
    const Node& n = node(i);
    std::vector<std::string> in, attrs;
    for (const Value v : n.inputs) in.push_back(value_text(v));
    for (const auto& [name, value] : n.attrs.items()) attrs.push_back(name + "=" + attr_text(value));
    text += fmt::format("%{} = {}({})", i, op::formed_name(*n.def, n.forms), fmt::join(in, ", "));
    if (!attrs.empty()) text += fmt::format(" {{{}}}", fmt::join(attrs, ", "));
    text += fmt::format(" : {}", types_text(n));
    if (!n.control.empty()) text += fmt::format(" after %{}", fmt::join(n.control, ", %"));
    text += fmt::format("  # {}{}{}\n", n.name, n.site.empty() ? "" : " @ ", n.site);
  }
  for (const auto& [name, value] : outputs_)
    text += fmt::format("output {} = {}\n", quote(name), value_text(value));
  return text;
}

std::string Graph::to_dot() const {
  std::string text = "digraph graph_ {\n  node [shape=box];\n";
  for (std::int32_t i = 0; i < size(); ++i) {
    const Node& n = node(i);
    text += fmt::format(
        "  n{} [label={}];\n", i,
        quote(fmt::format("{}: {} -> {}", n.name, op::formed_name(*n.def, n.forms), types_text(n))));
    for (const Value v : n.inputs)
      text += fmt::format("  n{} -> n{} [label={}];\n", v.node, i, quote(type(v).to_string()));
    for (const std::int32_t c : n.control) text += fmt::format("  n{} -> n{} [style=dashed];\n", c, i);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    text += fmt::format("  out{} [shape=oval, label={}];\n", i, quote(outputs_[i].first));
    text += fmt::format("  n{} -> out{} [label={}];\n", outputs_[i].second.node, i,
                        quote(type(outputs_[i].second).to_string()));
  }
  return text + "}\n";
}

}  // namespace trireme::graph
