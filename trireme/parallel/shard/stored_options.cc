#include "trireme/parallel/shard/stored_options.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "trireme/parallel/shard/node_options.h"

namespace trireme::parallel {
namespace {

using op::AxisCut;
using op::LayoutOption;

std::string text_of(const AxisCut& cut) {
  if (cut.dim == op::kPartial) return "p";
  if (cut.dim == op::kPartialMax) return "m";
  if (!cut.cuts()) return "r";
  std::string text = fmt::format("{}", cut.dim);
  if (cut.blocks > 1 || cut.unit > 1) text += fmt::format("x{}", cut.blocks);
  if (cut.unit > 1) text += fmt::format("u{}", cut.unit);
  return text;
}

std::string text_of(const std::vector<AxisCut>& cuts) {
  std::string text;
  for (const AxisCut& cut : cuts) text += (text.empty() ? "" : " ") + text_of(cut);
  return text;
}

std::string text_of(const LayoutOption& option) {
  return fmt::format("{}>{}{}", text_of(option.inputs), text_of(option.outputs), option.rewritten ? "*" : "");
}

bool parse_count(std::string_view text, std::int32_t& to) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), to);
  return failed == std::errc() && end == text.data() + text.size() && to >= 0;
}

}  // namespace

std::string StoredOptions::nodes_text() const {
  std::string text;
  for (std::size_t i = 0; i < nodes.size();) {
    std::size_t end = i;
    while (end < nodes.size() && nodes[end] == nodes[i]) ++end;
    text += text.empty() ? "" : " ";
    text += end - i == 1 ? fmt::format("{}", nodes[i]) : fmt::format("{}x{}", end - i, nodes[i]);
    i = end;
  }
  return text;
}

Result<std::vector<std::int32_t>> StoredOptions::parse_nodes(std::string_view text) {
  constexpr std::size_t kMostNodes = 1 << 24;
  std::vector<std::int32_t> out;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t times = word.find('x');
    std::int32_t count = 1, option = 0;
    const bool good = times == std::string_view::npos ? parse_count(word, option)
                                                      : parse_count(word.substr(0, times), count) &&
                                                            parse_count(word.substr(times + 1), option);
    if (!good || out.size() + static_cast<std::size_t>(count) > kMostNodes)
      return error(Code::kCorrupt, "[plan] '{}' is no run of nodes: expected OPTION or COUNTxOPTION", word);
    out.insert(out.end(), static_cast<std::size_t>(count), option);
  }
  return out;
}

StoredOptions store_options(const AxisLayouts& layouts) {
  StoredOptions stored;
  std::map<std::string, std::int32_t> known;
  for (const LayoutOption& option : layouts.options) {
    std::string text = text_of(option);
    const auto [at, fresh] = known.emplace(text, static_cast<std::int32_t>(stored.options.size()));
    if (fresh) stored.options.push_back(std::move(text));
    stored.nodes.push_back(at->second);
  }
  return stored;
}

Result<AxisLayouts> restore_options(const graph::Graph& graph, const ShardAxis& axis,
                                    const StoredOptions& stored) {
  if (static_cast<std::int32_t>(stored.nodes.size()) != graph.size())
    return error(Code::kInvalid,
                 "[plan] the plan cuts a graph of {} nodes, and the model's has {}: another version made it; "
                 "use that, or a new run folder",
                 stored.nodes.size(), graph.size());
  const NodeOptions known(graph, axis);
  AxisLayouts out;
  out.axis = axis;
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const std::int32_t wanted = stored.nodes[static_cast<std::size_t>(id)];
    const auto& all = known.of(id);
    const auto found = std::find_if(all.begin(), all.end(), [&](const LayoutOption& o) {
      return wanted < static_cast<std::int32_t>(stored.options.size()) &&
             text_of(o) == stored.options[static_cast<std::size_t>(wanted)];
    });
    if (found == all.end())
      return error(Code::kInvalid,
                   "[plan] '{}' cannot be cut over {} positions of axis '{}' as the plan says: another "
                   "version made it; use that, or a new run folder",
                   graph.node(id).name, axis.num_parts, axis.name);
    out.options.push_back(*found);
  }
  out.outputs = output_cuts(graph, out.options);
  return out;
}

}  // namespace trireme::parallel
