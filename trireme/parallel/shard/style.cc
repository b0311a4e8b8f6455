#include "trireme/parallel/shard/style.h"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "trireme/base/near_names.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/shard/node_options.h"

namespace trireme::parallel {
namespace {

using op::AxisCut;
using op::LayoutOption;

bool is_whole(const AxisCut& cut) { return cut == op::kReplicate; }
bool any_layout(const VariableUse&, const AxisCut&, bool) { return true; }
bool only_whole(const VariableUse&, const AxisCut& cut, bool) { return is_whole(cut); }
bool cut_where_it_can(const VariableUse&, const AxisCut& cut, bool can_be_cut) {
  return cut.cuts() || !can_be_cut;
}
// Krizhevsky 2014: convolutions have few weights and many activations, fully connected layers the reverse.
bool one_weird_trick(const VariableUse& use, const AxisCut& cut, bool can_be_cut) {
  if (use.by_convolution) return is_whole(cut);
  return !use.by_product || cut.cuts() || !can_be_cut;
}

// Dean et al. 2012, section 3: a machine has a part of the image, and the filters of no other part, nor the
// weights of a fully connected layer that read another part. Tied filters are whole everywhere.
bool with_the_image(const VariableUse& use, const AxisCut& cut, bool can_be_cut) {
  if (!use.by_sides.empty())
    return std::find(use.by_sides.begin(), use.by_sides.end(), cut) != use.by_sides.end();
  if (use.rows < 0) return is_whole(cut);
  return cut.dim == use.rows || cut.dim == use.rows + 1 || !can_be_cut;
}

bool cuts_samples(const LayoutOption& option) {
  const auto first = [](const AxisCut& cut) { return cut.dim == 0; };
  return std::any_of(option.outputs.begin(), option.outputs.end(), first);
}
bool is_everywhere_whole(const LayoutOption& option) {
  return std::all_of(option.inputs.begin(), option.inputs.end(), is_whole) &&
         std::all_of(option.outputs.begin(), option.outputs.end(), is_whole);
}
bool is_image(const graph::Node& node) { return !node.outputs.empty() && node.outputs[0].shape.rank() == 4; }
bool is_untied(const graph::Node& node) {
  return node.def == &op::kLocallyConnected2d || node.def == &op::kLocallyConnected2dInputGrad ||
         node.def == &op::kLocallyConnected2dFilterGrad;
}
// Rows and columns only: neither samples nor channels, nor sums over these. Ops with untied filters are cut
// so, with their filters, by rules that rewrite; cut by channels, they would need filters of all rows.
bool only_sides(const graph::Node& node, const LayoutOption& option, int, bool has_rule) {
  if (is_untied(node)) return option.rewritten || (!has_rule && is_everywhere_whole(option));
  if (!is_image(node) || node.inputs.empty()) return true;
  const auto is_other = [](const AxisCut& cut) { return cut.dim == 0 || cut.dim == 1; };
  if (option.outputs[0] == op::kPartial) return !is_other(option.inputs[0]);
  return !is_other(option.outputs[0]);
}
bool never_by_samples(const graph::Node& node, const LayoutOption& option, int, bool) {
  return node.inputs.empty() || node.outputs[0].shape.rank() < 3 || !cuts_samples(option);
}

// Lepikhin et al. 2020, section 3.1: an expert is in one place, everything else in all of them.
bool whole_but_experts(const VariableUse& use, const AxisCut& cut, bool) {
  return use.per_expert ? cut.dim == 0 : is_whole(cut);
}
// Batches of products are those of samples, when tokens get their slots, and those of experts: each is cut
// between its matrices, and so tokens change places in between.
bool between_matrices(const graph::Node& node, const LayoutOption& option, int num_parts, bool) {
  if (node.def != &op::kMatmul || node.outputs[0].shape.rank() < 3) return true;
  return option.outputs[0].dim == 0 || node.outputs[0].shape[0] < num_parts;
}

bool has_weights(const ModelFacts& facts) { return facts.weights; }
bool has_samples(const ModelFacts& facts) { return facts.samples; }
bool has_products(const ModelFacts& facts) { return facts.products; }
bool has_images(const ModelFacts& facts) { return facts.images && facts.convolutions; }
bool has_tokens(const ModelFacts& facts) { return facts.steps && facts.sequences; }
bool has_experts(const ModelFacts& facts) { return facts.experts; }

constexpr StyleRow kStyles[] = {
    {"price", "Whatever the cost model finds cheapest.", any_layout},
    {"data", "Weights whole everywhere; the samples of a shard are cut.", only_whole, nullptr, has_samples,
     "a shard of the batch has fewer samples than the axis has positions; use a larger train.batch, fewer "
     "shards or a smaller axis"},
    {"tensor", "Every weight matrix, table and filter is cut, so that positions hold parts of the model.",
     cut_where_it_can, nullptr, has_weights,
     "it has no weights that so many positions can have parts of; use a smaller axis"},
    {"one-weird-trick", "Convolutions cut their samples, fully connected layers their weights.",
     one_weird_trick, nullptr, has_products, "it has no fully connected layers; use data"},
    {"spatial",
     "Images are cut in height or width, with exchanges at the edges, and with them untied filters and fully "
     "connected weights that read an image; other weights are whole.",
     with_the_image, only_sides, has_images,
     "it computes no images with so many rows or columns; use a smaller axis, or data or tensor"},
    {"sequence", "Weights whole; the tokens of a text are cut, and heads within attention.", only_whole,
     never_by_samples, has_tokens,
     "it computes no sequences of so many tokens; use a smaller axis, or data or tensor"},
    {"expert",
     "Experts are dealt out, all else is whole; samples are cut, and tokens travel to their experts.",
     whole_but_experts, between_matrices, has_experts,
     "it has no layer of experts (kind = \"experts\", or the option experts of a model); choose another "
     "style"},
};

// What only brings a value to where it is computed with: a cast for products of 16 bits, and what other axes
// of the mesh have put between a variable and its readers.
bool brings(const graph::Node& node) {
  static const std::set<const op::OpDef*> kBringing{&op::kCast, &op::kTakePart, &op::kAllgather,
                                                    &op::kAllToAll};
  return kBringing.contains(node.def);
}
graph::Value brought(const graph::Graph& graph, graph::Value v) {
  while (brings(graph.node(v.node))) v = graph.node(v.node).inputs[0];
  return v;
}

// The same where it leads to a variable: what another axis gathers in blocks is reshaped on the way. A
// reshape alone is the model's own, and whoever reads it reads something else than the variable.
graph::Value brought_variable(const graph::Graph& graph, graph::Value v) {
  graph::Value at = v;
  bool moved = false;
  while (brings(graph.node(at.node)) || graph.node(at.node).def == &op::kReshape) {
    moved = moved || graph.node(at.node).def != &op::kReshape;
    at = graph.node(at.node).inputs[0];
  }
  return moved && graph.node(at.node).def == &op::kVariable ? at : brought(graph, v);
}

// Whether the value is a product of a batch.
bool is_batch_of_products(const graph::Graph& graph, graph::Value v) {
  const graph::Node& node = graph.node(brought(graph, v).node);
  return node.def == &op::kMatmul && node.outputs[0].shape.rank() >= 3;
}

// What a node that reads a variable makes of it. A gradient reads weights too, in the same way.
void note_use(const graph::Graph& graph, const graph::Node& reader, const Shape& shape, VariableUse& use) {
  static const std::set<std::string_view> kConvolutions{"conv2d", "conv2d_transpose", "locally_connected2d"};
  static const std::set<std::string_view> kProducts{"matmul", "embedding"};
  use.by_convolution = use.by_convolution || kConvolutions.contains(reader.def->name);
  use.by_product = use.by_product || kProducts.contains(reader.def->name);
  const bool multiplies = reader.def == &op::kMatmul && reader.outputs[0].shape.rank() >= 3;
  const bool adds =
      reader.def == &op::kAdd && std::any_of(reader.inputs.begin(), reader.inputs.end(),
                                             [&](graph::Value v) { return is_batch_of_products(graph, v); });
  const Shape& made = reader.outputs[0].shape;
  const bool adds_to_image = reader.def == &op::kAdd && made.rank() == 4 && shape.rank() == 3;
  if (reader.def == &op::kLocallyConnected2d) use.rows = 0;
  if (adds_to_image && shape[1] == made[2] && shape[2] == made[3]) use.rows = 1;
  use.per_expert = use.per_expert || (shape.rank() == 3 && (multiplies || adds));
}

// Where a value is a flattened image, the reshape that flattens it: dropout and the like may be in between.
std::optional<std::int32_t> flattening(const graph::Graph& graph, graph::Value v) {
  for (;;) {
    const graph::Node& node = graph.node(brought(graph, v).node);
    if (node.def == &op::kReshape) {
      const bool flattens = is_image(graph.node(node.inputs[0].node)) && node.outputs[0].shape.rank() == 2;
      return flattens ? std::optional(brought(graph, v).node) : std::nullopt;
    }
    if (!(node.def->has(op::kElementwise) || node.def->has(op::kRandom)) || node.inputs.empty())
      return std::nullopt;
    v = node.inputs[0];
  }
}

// A matrix whose product with a flattened image is a sum over the image's points can be cut as these are.
void note_sides(const graph::Graph& graph, const NodeOptions& options, const graph::Node& reader,
                std::size_t operand, VariableUse& use) {
  if (reader.def != &op::kMatmul || reader.outputs[0].shape.rank() != 2) return;
  const auto flat = flattening(graph, reader.inputs[1 - operand]);
  if (!flat) return;
  // The dimension that each of the two is summed over: of the image it has to be that of its points.
  const int of_a = reader.attrs.get_bool("transpose_a") ? 0 : 1;
  const int of_b = reader.attrs.get_bool("transpose_b") ? 1 : 0;
  if ((operand == 0 ? of_b : of_a) != 1) return;
  const int dim = operand == 0 ? of_a : of_b;
  for (const LayoutOption& option : options.of(*flat))
    if (option.inputs[0].dim >= 2 && option.outputs[0].dim == 1)
      use.by_sides.emplace_back(dim, option.outputs[0].blocks, option.outputs[0].unit);
}

std::map<std::string, VariableUse> uses_of(const graph::Graph& graph, const NodeOptions& options) {
  std::map<std::int32_t, std::string> names;
  std::map<std::string, VariableUse> uses;
  for (const auto& [name, v] : graph.variables()) {
    names.emplace(v.node, name);
    uses.emplace(name, VariableUse());
  }
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    if (brings(node)) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const graph::Value read = brought_variable(graph, node.inputs[i]);
      const auto found = names.find(read.node);
      if (found == names.end()) continue;
      note_use(graph, node, graph.type(read).shape, uses.at(found->second));
      note_sides(graph, options, node, i, uses.at(found->second));
    }
  }
  return uses;
}

bool reads_samples_in_parts(const graph::Graph& graph, const graph::Node& node, const LayoutOption& option) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (graph.node(brought(graph, node.inputs[i]).node).def == &op::kInput && option.inputs[i].dim == 0)
      return true;
  return false;
}

// Convolution and pooling know rows and columns; heads of attention have four dimensions too.
bool cuts_images(const graph::Node& node, const LayoutOption& option) {
  return is_image(node) && option.rewritten && option.outputs[0].dim >= 2;
}

void note_option(const graph::Graph& graph, const graph::Node& node, const LayoutOption& option,
                 ModelFacts& facts) {
  if (node.inputs.empty()) {
    const bool is_matrix = node.def == &op::kVariable && node.outputs[0].shape.rank() >= 2;
    facts.weights = facts.weights || (is_matrix && option.outputs[0].cuts());
    return;
  }
  facts.samples = facts.samples || reads_samples_in_parts(graph, node, option);
  facts.images = facts.images || cuts_images(node, option);
  facts.steps = facts.steps || (node.outputs[0].shape.rank() == 3 && option.outputs[0].dim == 1);
}

ModelFacts facts_of(const graph::Graph& graph, const NodeOptions& options,
                    const std::map<std::string, VariableUse>& uses) {
  ModelFacts facts;
  for (const auto& [name, use] : uses) {
    facts.convolutions = facts.convolutions || use.by_convolution;
    facts.products = facts.products || use.by_product;
    facts.experts = facts.experts || use.per_expert;
  }
  for (std::int32_t id = 0; id < graph.size(); ++id) {
    facts.sequences = facts.sequences || graph.node(id).def->family == "sequence";
    for (const LayoutOption& option : options.of(id)) note_option(graph, graph.node(id), option, facts);
  }
  return facts;
}

// A style may want what a model does not have.
Status check_style(const StyleRow& style, const ShardAxis& axis, const ModelFacts& facts) {
  if (style.fits == nullptr || style.fits(facts)) return {};
  return error(Code::kInvalid, "[parallel] style '{}' does not fit the model on axis '{}' of {}: {}",
               style.name, axis.name, axis.num_parts, style.lacks);
}

// What is known of a variable before anything is chosen.
struct VariableFacts {
  VariableUse use;
  bool can_be_cut = false;
  const LayoutPin* pin = nullptr;
};

// Whether another axis has cut the graph. What that left may have other sizes at each of its positions, so
// what fits one of them need not fit all.
bool was_cut(const graph::Graph& graph) {
  for (std::int32_t id = 0; id < graph.size(); ++id)
    if (graph.node(id).def->family == "comm") return true;
  return false;
}

// Nodes that so many positions can cut by the rule of their op.
using RuledNodes = std::set<std::pair<const op::OpDef*, std::string>>;
RuledNodes ruled_nodes(const graph::Graph& graph, const NodeOptions& options) {
  RuledNodes ruled;
  for (std::int32_t id = 0; id < graph.size(); ++id)
    for (const LayoutOption& option : options.of(id))
      if (option.rewritten) ruled.emplace(graph.node(id).def, graph.node(id).name);
  return ruled;
}

std::string known_cuts(const std::vector<LayoutOption>& options) {
  std::string known;
  for (const LayoutOption& option : options)
    known += (known.empty() ? "" : ", ") + option.outputs[0].to_text();
  return known;
}

// What a pattern without its stars comes near to.
std::string near_parameters(std::string_view pattern, const graph::Graph& graph) {
  std::string plain;
  std::remove_copy(pattern.begin(), pattern.end(), std::back_inserter(plain), '*');
  const auto variables = graph.variables();
  std::vector<std::string_view> names;
  for (const auto& [name, v] : variables) names.push_back(name);
  return did_you_mean(plain, names);
}

// Whether positions have the same of a tensor either way: units matter only where parts are uneven.
bool lies_alike(const AxisCut& a, const AxisCut& b, const Shape& shape, int num_parts) {
  if (a == b) return true;
  if (a.dim < 0 || a.dim != b.dim || a.blocks != b.blocks || a.dim >= shape.rank()) return false;
  if (shape[a.dim] % (a.blocks * a.unit) != 0 || shape[b.dim] % (b.blocks * b.unit) != 0) return false;
  return op::part_sizes(a, shape[a.dim], num_parts) == op::part_sizes(b, shape[b.dim], num_parts);
}

Status check_pin(const LayoutPin& pin, const graph::Graph& graph, const NodeOptions& options,
                 const ShardAxis& axis) {
  bool matched = false;
  for (const auto& [name, v] : graph.variables()) {
    if (!matches(pin.pattern, name)) continue;
    matched = true;
    const auto& all = options.of(v.node);
    const auto fitting = [&, shape = graph.type(v).shape](const LayoutOption& o) {
      return lies_alike(o.outputs[0], pin.cut, shape, axis.num_parts);
    };
    if (std::none_of(all.begin(), all.end(), fitting))
      return error(
          Code::kInvalid,
          "[parallel] layout '{}: {}={}{}': '{}' is {}, which {} positions cannot have as {}; choose "
          "another dimension or a smaller axis; it can be: {}",
          pin.pattern, pin.axis, pin.cut.dim, pin.cut.blocks > 1 ? fmt::format("x{}", pin.cut.blocks) : "",
          name, graph.type(v).to_string(), axis.num_parts, pin.cut.to_text(), known_cuts(all));
  }
  if (matched) return {};
  return error(Code::kInvalid,
               "[parallel] layout '{}': no parameter has such a name; `trireme inspect model` lists them{}",
               pin.pattern, near_parameters(pin.pattern, graph));
}

bool parse_int(std::string_view text, int& to) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), to);
  return failed == std::errc() && end == text.data() + text.size() && to >= 0;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::span<const StyleRow> style_table() { return kStyles; }

Result<const StyleRow*> find_style(std::string_view name) {
  std::vector<std::string_view> known;
  for (const StyleRow& row : kStyles) {
    if (row.name == name) return &row;
    known.emplace_back(row.name);
  }
  return error(Code::kInvalid, "[parallel] no style '{}'; there are: {}{}", name, fmt::join(known, ", "),
               did_you_mean(name, known));
}

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t i = star; i <= name.size(); ++i)
    if (matches(rest, name.substr(i))) return true;
  return false;
}

Result<LayoutPin> parse_pin(std::string_view text) {
  const Status bad = error(Code::kInvalid,
                           "[parallel] layout '{}': expected NAME: AXIS=DIMENSION, such as \"fc*/weight: "
                           "model=0\", \"*/qkv/weight: model=0x3\" or \"conv*: model=replicate\"",
                           text);
  const std::size_t colon = text.rfind(':');
  const std::size_t equals = text.find('=', colon == std::string_view::npos ? 0 : colon);
  if (colon == std::string_view::npos || equals == std::string_view::npos) return bad;
  LayoutPin pin;
  pin.pattern = trimmed(text.substr(0, colon));
  pin.axis = trimmed(text.substr(colon + 1, equals - colon - 1));
  const std::string_view how = trimmed(text.substr(equals + 1));
  if (pin.pattern.empty() || pin.axis.empty()) return bad;
  if (how == "replicate") return pin;
  const std::size_t times = how.find('x'), units = how.find('u', times == std::string_view::npos ? 0 : times);
  int dim = 0, blocks = 1, unit = 1;
  if (!parse_int(how.substr(0, std::min(times, units)), dim)) return bad;
  if (times != std::string_view::npos &&
      (!parse_int(how.substr(times + 1, units - times - 1), blocks) || blocks < 1))
    return bad;
  if (units != std::string_view::npos && (!parse_int(how.substr(units + 1), unit) || unit < 1)) return bad;
  pin.cut = AxisCut(dim, blocks, unit);
  return pin;
}

Status restrict_to(const StyleRow* style, const std::vector<LayoutPin>& pins, const graph::Graph& graph,
                   ShardRequest& request) {
  const NodeOptions options(graph, request.axis);
  const bool again = was_cut(graph);
  std::map<std::string, VariableFacts> facts;
  const std::map<std::string, VariableUse> uses = uses_of(graph, options);
  if (style != nullptr) TR_RETURN_IF_ERROR(check_style(*style, request.axis, facts_of(graph, options, uses)));
  for (const auto& [name, use] : uses) facts[name].use = use;
  for (const auto& [name, v] : graph.variables()) {
    const std::vector<LayoutOption>& known = options.of(v.node);
    for (const LayoutOption& o : known)
      facts[name].can_be_cut = facts[name].can_be_cut || o.outputs[0].cuts();
    std::erase_if(facts[name].use.by_sides, [&](const AxisCut& cut) {
      return std::none_of(known.begin(), known.end(),
                          [&](const LayoutOption& o) { return o.outputs[0] == cut; });
    });
    if (again && !facts[name].use.by_sides.empty()) facts[name].use.by_sides.emplace_back(op::kReplicate);
  }
  const auto kept = std::make_shared<const std::vector<LayoutPin>>(pins);
  for (const LayoutPin& pin : *kept) {
    if (pin.axis != request.axis.name) continue;
    TR_RETURN_IF_ERROR(check_pin(pin, graph, options, request.axis));
    for (auto& [name, fact] : facts)
      if (matches(pin.pattern, name)) fact.pin = &pin;
  }
  request.allowed = [kept, style, facts, ruled = again ? RuledNodes() : ruled_nodes(graph, options),
                     parts = request.axis.num_parts](const graph::Node& node, const LayoutOption& option) {
    if (node.def != &op::kVariable)
      return style == nullptr || style->allows_node == nullptr ||
             style->allows_node(node, option, parts, ruled.contains({node.def, node.name}));
    const VariableFacts& fact = facts.at(node.attrs.get_text("name"));
    if (fact.pin != nullptr)
      return lies_alike(option.outputs[0], fact.pin->cut, node.outputs[0].shape, parts);
    if (style == nullptr || node.outputs[0].shape.rank() < 2) return true;
    return style->allows(fact.use, option.outputs[0], fact.can_be_cut);
  };
  return {};
}

void restrict_nodes(const StyleRow* style, const graph::Graph& graph, ShardRequest& request) {
  if (style == nullptr || style->allows_node == nullptr) return;
  const NodeOptions options(graph, request.axis);
  request.allowed = [style, ruled = was_cut(graph) ? RuledNodes() : ruled_nodes(graph, options),
                     parts = request.axis.num_parts](const graph::Node& node, const LayoutOption& option) {
    return node.def == &op::kVariable ||
           style->allows_node(node, option, parts, ruled.contains({node.def, node.name}));
  };
}

}  // namespace trireme::parallel
