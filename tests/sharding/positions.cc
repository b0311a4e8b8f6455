#include "tests/sharding/positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/op/run_op.h"
#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/op/ops.h"
#include "trireme/parallel/shard/axis_writer.h"
#include "trireme/parallel/shard/node_options.h"
#include "trireme/parallel/shard/stored_options.h"

namespace trireme::parallel::testing {
namespace {

using graph::Node;
using graph::Value;
using op::AxisCut;
using Ints = std::vector<std::int64_t>;
using Values = std::vector<std::vector<Tensor>>;  // of a position: per node its outputs

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Tensor new_tensor(const TensorType& type, double fill = 0) {
  const Ints dims(type.shape.dims().begin(), type.shape.dims().end());
  return (*op::testing::run_op(op::kFill, {}, {{"value", fill}, {"dtype", type.dtype}, {"shape", dims}}))[0];
}

void copy_into(const Tensor& to, const Tensor& from) {
  if (to.shape().num_elems() > 0) TR_CHECK(op::testing::run_op(op::kAssign, {to, from}, {}).ok(), "a copy");
}

Tensor contiguous(const Tensor& view) {
  Tensor out = new_tensor(view.type());
  copy_into(out, view);
  return out;
}

// Joins pieces of these extents along a dimension.
Tensor join(const std::vector<Tensor>& parts, int dim) {
  TensorType type = parts[0].type();
  std::int64_t size = 0;
  for (const Tensor& t : parts) size += t.shape()[dim];
  type.shape.set(dim, size);
  Tensor out = new_tensor(type);
  std::int64_t begin = 0;
  for (const Tensor& t : parts) {
    copy_into(out.slice(dim, begin, begin + t.shape()[dim]), t);
    begin += t.shape()[dim];
  }
  return out;
}

Tensor reduce(const std::vector<Tensor>& parts, const std::string& how) {
  Tensor sum = parts[0];
  const op::OpDef& def = how == "max" ? op::kMaximum : op::kAdd;
  for (std::size_t p = 1; p < parts.size(); ++p) sum = (*op::testing::run_op(def, {sum, parts[p]}, {}))[0];
  return sum;
}

// Index ranges of the parts of `size`: those of the attribute, or equal ones.
Ints sizes_of(const Node& node, const char* attr, std::int64_t size, std::size_t parts) {
  Ints sizes = node.attrs.get_ints(attr);
  if (sizes.empty()) sizes.assign(parts, size / static_cast<std::int64_t>(parts));
  return sizes;
}

Tensor nth_part(const Tensor& whole, int dim, const Ints& sizes, std::size_t p) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < p; ++i) begin += sizes[i];
  return contiguous(whole.slice(dim, begin, begin + sizes[p]));
}

Tensor window(const Tensor& whole, const Node& node, std::size_t p) {
  const int dim = static_cast<int>(node.attrs.get_int("dim"));
  const std::int64_t begin = node.attrs.get_ints("begins")[p], end = node.attrs.get_ints("ends")[p];
  TensorType type = whole.type();
  type.shape.set(dim, end - begin);
  Tensor out = new_tensor(type, node.attrs.get_float("fill"));
  const std::int64_t first = std::max<std::int64_t>(begin, 0), last = std::min(end, whole.shape()[dim]);
  if (first < last) copy_into(out.slice(dim, first - begin, last - begin), whole.slice(dim, first, last));
  return out;
}

// What every position gets from an exchange of these parts.
std::vector<Tensor> exchanged(const std::vector<const Node*>& nodes, const std::vector<Tensor>& parts) {
  const Node& node = *nodes[0];
  std::vector<Tensor> out;
  const auto for_all = [&](const auto& fn) {
    for (std::size_t p = 0; p < parts.size(); ++p) out.push_back(fn(p));
  };
  const auto int_of = [&](const char* attr) { return static_cast<int>(node.attrs.get_int(attr)); };
  if (node.def == &op::kAllreduce) {
    Tensor all = reduce(parts, node.attrs.get_text("reduction"));
    for_all([&](std::size_t) { return all; });
  } else if (node.def == &op::kAllgather) {
    Tensor all = join(parts, int_of("dim"));
    for_all([&](std::size_t) { return all; });
  } else if (node.def == &op::kBroadcast) {
    for_all([&](std::size_t) { return parts[at(int_of("root"))]; });
  } else if (node.def == &op::kReduceScatter) {
    const Tensor all = reduce(parts, "sum");
    const Ints sizes = sizes_of(node, "sizes", all.shape()[int_of("dim")], parts.size());
    for_all([&](std::size_t p) { return nth_part(all, int_of("dim"), sizes, p); });
  } else if (node.def == &op::kAllToAll) {
    const Tensor all = join(parts, int_of("from"));
    const Ints sizes = sizes_of(node, "sizes_to", all.shape()[int_of("to")], parts.size());
    for_all([&](std::size_t p) { return nth_part(all, int_of("to"), sizes, p); });
  } else {
    TR_CHECK(node.def == &op::kHaloExchange, "'{}' is no exchange that is known here", node.def->name);
    const Tensor all = join(parts, int_of("dim"));
    for_all([&](std::size_t p) { return window(all, node, p); });
  }
  return out;
}

Result<std::vector<Tensor>> run_alone(const Node& node, const Values& values, const Tensors& fed) {
  if (node.def->has(op::kFeed) && node.def != &op::kConstant)
    return std::vector{fed.at(node.attrs.get_text("name"))};
  std::vector<Tensor> inputs;
  for (const Value v : node.inputs) inputs.push_back(values[at(v.node)][at(v.index)]);
  return op::testing::run_op(*node.def, inputs, node.attrs);
}

Tensors outputs_of(const graph::Graph& graph, const Values& values) {
  Tensors out;
  for (const auto& [name, v] : graph.outputs()) out.emplace(name, values[at(v.node)][at(v.index)]);
  return out;
}

// Runs nodes of a position up to its next collective, or the end.
Status run_ahead(const graph::Graph& graph, const Tensors& fed, Values& values) {
  while (std::ssize(values) < graph.size()) {
    const Node& node = graph.node(static_cast<std::int32_t>(values.size()));
    if (node.def->has(op::kHostOp)) return {};
    TR_ASSIGN_OR_RETURN(auto out, run_alone(node, values, fed));
    values.push_back(std::move(out));
  }
  return {};
}

// The next collective of every position, which are of one op; empty at the end.
Result<std::vector<const Node*>> next_collectives(const std::vector<graph::Graph>& graphs,
                                                  const std::vector<Values>& values) {
  std::vector<const Node*> nodes;
  for (std::size_t p = 0; p < graphs.size(); ++p)
    if (const auto next = static_cast<std::int32_t>(values[p].size()); next < graphs[p].size())
      nodes.push_back(&graphs[p].node(next));
  if (nodes.empty()) return nodes;
  const auto text = [](const Node& node, const char* attr) { return node.attrs.get_text(attr); };
  for (const Node* node : nodes)
    if (nodes.size() != graphs.size() || node->def != nodes[0]->def ||
        text(*node, "axis") != text(*nodes[0], "axis") || text(*node, "label") != text(*nodes[0], "label"))
      return error(Code::kInvalid, "the collectives of positions differ at '{}'", node->name);
  return nodes;
}

// The ranks that meet in a collective, in the order of their positions.
Result<std::vector<std::vector<int>>> lines_of(const Mesh& mesh, const std::string& axis) {
  std::vector<std::vector<int>> lines;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].name != axis) continue;
    for (int rank = 0; rank < mesh.num_ranks(); ++rank)
      if (mesh.coordinates(rank)[i] == 0) lines.push_back(mesh.line(rank, i));
    return lines;
  }
  return error(Code::kInvalid, "a collective along '{}', which the mesh {} lacks", axis, mesh_text(mesh));
}

// One collective: what every rank has then.
Status exchange(const std::vector<const Node*>& nodes, const Mesh& mesh, std::vector<Values>& values) {
  TR_ASSIGN_OR_RETURN(const auto lines, lines_of(mesh, nodes[0]->attrs.get_text("axis")));
  for (const std::vector<int>& line : lines) {
    std::vector<const Node*> own;
    std::vector<Tensor> parts;
    for (const int rank : line) {
      const Value v = nodes[at(rank)]->inputs[0];
      own.push_back(nodes[at(rank)]);
      parts.push_back(values[at(rank)][at(v.node)][at(v.index)]);
    }
    const std::vector<Tensor> got = exchanged(own, parts);
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (got[i].type() != own[i]->outputs[0])
        return error(Code::kInvalid, "'{}' at rank {}: {}, expected {}", own[i]->name, line[i],
                     got[i].type().to_string(), own[i]->outputs[0].to_string());
      values[at(line[i])].push_back({got[i]});
    }
  }
  return {};
}

Status run_in_lock_step(const std::vector<graph::Graph>& graphs, const Mesh& mesh,
                        const std::vector<Tensors>& fed, std::vector<Values>& values) {
  for (;;) {
    for (std::size_t p = 0; p < graphs.size(); ++p)
      TR_RETURN_IF_ERROR(run_ahead(graphs[p], fed[p], values[p]));
    TR_ASSIGN_OR_RETURN(const std::vector<const Node*> nodes, next_collectives(graphs, values));
    if (nodes.empty()) return {};
    TR_RETURN_IF_ERROR(exchange(nodes, mesh, values));
  }
}

CutOverMesh::AxisOutcome outcome_of(const graph::Graph& graph, const AxisLayouts& layouts) {
  CutOverMesh::AxisOutcome out{{}, layouts.outputs};
  for (const auto& [name, v] : graph.variables()) out.variables.emplace(name, layouts.cut_of(graph, name));
  return out;
}

// What a rank has of a tensor that axis after axis cuts.
template <typename CutOf>
Tensor part_of_rank(const CutOverMesh& cut, int rank, Tensor t, const CutOf& cut_of) {
  const std::vector<int> place = cut.mesh.coordinates(rank);
  for (std::size_t a = 0; a < place.size(); ++a)
    t = part_of(t, cut_of(cut.chosen[at(rank)][a]), cut.mesh.axes[a].size, place[a]);
  return t;
}

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i)
    out.push_back(t.dtype() == DType::kF64 ? t.data<double>()[i] : static_cast<double>(t.data<float>()[i]));
  return out;
}

}  // namespace

Result<graph::Graph> in_f64(const graph::Graph& from) {
  graph::Graph to;
  std::vector<std::int32_t> moved;
  for (std::int32_t i = 0; i < from.size(); ++i) {
    const Node& node = from.node(i);
    graph::Attrs wide = node.attrs;
    const bool stays = node.def == &op::kInput && node.attrs.get_text("name") == "weights";
    for (const auto& [name, value] : node.attrs.items())
      if (const DType* dtype = std::get_if<DType>(&value);
          dtype != nullptr && *dtype == DType::kF32 && !stays)
        wide.set(name, DType::kF64);
    std::vector<Value> inputs, widened;
    for (const Value v : node.inputs) inputs.push_back({moved[at(v.node)], v.index});
    Result<Value> made = to.add(*node.def, inputs, wide, node.name);
    if (!made.ok()) made = to.add(*node.def, inputs, node.attrs, node.name);
    for (const Value v : inputs) {
      if (made.ok()) break;
      const bool is_narrow = to.type(v).dtype == DType::kF32;
      widened.push_back(is_narrow ? *to.add(op::kCast, {v}, {{"dtype", DType::kF64}}) : v);
    }
    if (!made.ok()) made = to.add(*node.def, widened, wide, node.name);
    if (!made.ok()) return made.status();
    moved.push_back(made->node);
  }
  for (const auto& [name, v] : from.outputs()) to.set_output(name, {moved[at(v.node)], v.index});
  return to;
}

Tensors made_up(const graph::Graph& graph, int below) {
  Tensors fed;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (node.def != &op::kInput && node.def != &op::kVariable) continue;
    const std::string& name = node.attrs.get_text("name");
    const Tensor t = *Tensor::allocate(cpu_device(), node.outputs[0]);
    Philox rng(5, hash_text(name));
    const double scale = node.def == &op::kVariable ? 0.3 : 1;
    for (std::int64_t e = 0; e < t.shape().num_elems(); ++e) {
      const double drawn = scale * (2 * rng.next_double() - 1);
      if (t.dtype() == DType::kF64) t.data<double>()[e] = drawn;
      if (t.dtype() == DType::kF32)
        t.data<float>()[e] = static_cast<float>(name == "weights" ? 0.25 + 0.5 * rng.next_double() : drawn);
      if (t.dtype() == DType::kI32)
        t.data<std::int32_t>()[e] =
            static_cast<std::int32_t>(rng.next_below(static_cast<std::uint32_t>(below)));
      if (t.dtype() == DType::kI64) t.data<std::int64_t>()[e] = e + 3;
    }
    fed.emplace(name, t);
  }
  return fed;
}

Result<Tensors> run_whole(const graph::Graph& graph, const Tensors& fed) {
  Values values;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    TR_ASSIGN_OR_RETURN(auto out, run_alone(graph.node(i), values, fed));
    values.push_back(std::move(out));
  }
  return outputs_of(graph, values);
}

Tensor part_of(const Tensor& whole, const AxisCut& cut, int num_parts, int position) {
  if (!cut.cuts()) return whole;
  const std::int64_t block = whole.shape()[cut.dim] / cut.blocks;
  const Ints sizes = op::part_sizes(AxisCut(cut.dim, 1, cut.unit), block, num_parts);
  std::vector<Tensor> blocks;
  for (int b = 0; b < cut.blocks; ++b)
    blocks.push_back(
        nth_part(contiguous(whole.slice(cut.dim, b * block, (b + 1) * block)), cut.dim, sizes, at(position)));
  return join(blocks, cut.dim);
}

namespace {

// Whether a node is cut by indices where its operands have other sizes in some of the graphs: there rules
// write other exchanges.
bool is_uneven(const std::vector<graph::Graph>& graphs, std::int32_t id, const op::LayoutOption& option) {
  if (!option.rewritten || option.any_indices) return false;
  const auto differs = [&](auto type_of, const op::AxisCut& cut) {
    return cut.cuts() && std::any_of(graphs.begin(), graphs.end(), [&](const graph::Graph& g) {
             return type_of(g).shape[cut.dim] != type_of(graphs.back()).shape[cut.dim];
           });
  };
  const Node& last = graphs.back().node(id);
  for (std::size_t i = 0; i < last.inputs.size(); ++i)
    if (differs([&](const graph::Graph& g) { return g.type(g.node(id).inputs[i]); }, option.inputs[i]))
      return true;
  for (std::size_t k = 0; k < last.outputs.size(); ++k)
    if (differs([&](const graph::Graph& g) { return g.node(id).outputs[k]; }, option.outputs[k])) return true;
  return false;
}

// Nodes of the last graph can be cut only as those of all graphs can, whose parts may be larger by one.
void keep_common(const std::vector<graph::Graph>& graphs, ShardRequest& request) {
  std::vector<NodeOptions> known;
  for (const graph::Graph& g : graphs) known.emplace_back(g, request.axis);
  std::map<const Node*, std::int32_t> ids;
  for (std::int32_t id = 0; id < graphs.back().size(); ++id) ids.emplace(&graphs.back().node(id), id);
  request.allowed = [&graphs, known, ids, asked = request.allowed](const Node& node,
                                                                   const op::LayoutOption& option) {
    if (asked && !asked(node, option)) return false;
    if (is_uneven(graphs, ids.at(&node), option)) return false;
    const auto equal = [&](const op::LayoutOption& o) {
      return o.inputs == option.inputs && o.outputs == option.outputs;
    };
    return std::all_of(known.begin(), known.end(), [&](const NodeOptions& of) {
      const auto& all = of.of(ids.at(&node));
      return std::any_of(all.begin(), all.end(), equal);
    });
  };
}

}  // namespace

AxisCosts costs_that_cut() {
  AxisCosts costs;
  costs.machine.flops_per_second_per_core = 1e5;
  costs.machine.bytes_per_second = 1e6;
  costs.machine.op_overhead_ns = 0;
  costs.comm = cost::CommModel({.latency_ns = 0, .bytes_per_second = 1e12, .message_overhead_ns = 0}, {});
  return costs;
}

Result<CutOverMesh> cut_over(const graph::Graph& whole, const Mesh& mesh, const Restriction& restriction) {
  CutOverMesh out{mesh, {whole}, {{}}};
  for (const Axis& of : mesh.axes) {
    const ShardAxis axis{of.name, of.size};
    ShardRequest request;
    request.axis = axis;
    request.costs = costs_that_cut();
    request.seconds_per_held_byte = 1e-9;
    TR_RETURN_IF_ERROR(restriction(out.graphs.back(), request));
    for (const graph::Graph& g : out.graphs)
      if (g.size() != out.graphs.back().size())
        return error(Code::kInvalid, "graphs of ranks have {} and {} nodes", g.size(),
                     out.graphs.back().size());
    if (out.graphs.size() > 1) keep_common(out.graphs, request);
    TR_ASSIGN_OR_RETURN(const AxisLayouts last, choose_layouts(out.graphs.back(), request));
    const StoredOptions stored = store_options(last);
    CutOverMesh next{mesh, {}, {}};
    for (std::size_t g = 0; g < out.graphs.size(); ++g) {
      TR_ASSIGN_OR_RETURN(const AxisLayouts layouts, restore_options(out.graphs[g], axis, stored));
      for (int p = 0; p < axis.num_parts; ++p) {
        TR_ASSIGN_OR_RETURN(graph::Graph part, shard_graph(out.graphs[g], layouts, p));
        next.graphs.push_back(std::move(part));
        next.chosen.push_back(out.chosen[g]);
        next.chosen.back().push_back(outcome_of(out.graphs[g], layouts));
      }
    }
    out = std::move(next);
  }
  return out;
}

Result<std::vector<Tensors>> run_ranks(const CutOverMesh& cut, const Tensors& fed) {
  std::vector<Tensors> own;
  for (int rank = 0; rank < cut.mesh.num_ranks(); ++rank) {
    Tensors mine = fed;
    for (const auto& [name, layout] : cut.chosen[at(rank)][0].variables)
      mine[name] = part_of_rank(cut, rank, fed.at(name), [&, &variable = name](const auto& axis) {
        return axis.variables.at(variable);
      });
    const std::vector<int> place = cut.mesh.coordinates(rank);
    for (std::size_t a = 0; a < place.size(); ++a)
      mine.insert_or_assign(position_input({cut.mesh.axes[a].name, cut.mesh.axes[a].size}),
                            new_tensor({DType::kI64, {}}, place[a]));
    own.push_back(std::move(mine));
  }
  std::vector<Values> values(cut.graphs.size());
  TR_RETURN_IF_ERROR(run_in_lock_step(cut.graphs, cut.mesh, own, values));
  std::vector<Tensors> out;
  for (std::size_t rank = 0; rank < values.size(); ++rank)
    out.push_back(outputs_of(cut.graphs[rank], values[rank]));
  return out;
}

void expect_close(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.type(), expected.type()) << what;
  const std::vector<double> a = doubles(got), b = doubles(expected);
  if (got.dtype() != DType::kF64) tolerance = std::max(tolerance, 1e-6);
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << what << ", element " << i;
}

void expect_ranks_give(const CutOverMesh& cut, const std::vector<Tensors>& got, const Tensors& expected,
                       double tolerance) {
  for (int rank = 0; rank < cut.mesh.num_ranks(); ++rank) {
    const auto& outputs = cut.graphs[at(rank)].outputs();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const std::string& name = outputs[o].first;
      const Tensor wanted =
          part_of_rank(cut, rank, expected.at(name), [&](const auto& axis) { return axis.outputs[o]; });
      expect_close(got[at(rank)].at(name), wanted, tolerance,
                   fmt::format("{} at {}", name, cut.mesh.rank_text(rank)));
    }
  }
}

Result<std::vector<Tensors>> run_positions(const graph::Graph& whole, const AxisLayouts& layouts,
                                           const Tensors& fed, const ChunkRequest& chunks) {
  CutOverMesh cut{{{{layouts.axis.name, layouts.axis.num_parts}}}, {}, {}};
  for (int p = 0; p < layouts.axis.num_parts; ++p) {
    TR_ASSIGN_OR_RETURN(graph::Graph part, shard_in_chunks(whole, layouts, chunks, p));
    cut.graphs.push_back(std::move(part));
    cut.chosen.push_back({outcome_of(whole, layouts)});
  }
  return run_ranks(cut, fed);
}

}  // namespace trireme::parallel::testing
