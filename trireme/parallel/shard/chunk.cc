#include "trireme/parallel/shard/chunk.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "trireme/graph/pass/rewrite.h"
#include "trireme/op/ops.h"

namespace trireme::parallel {
namespace {

using graph::Attrs;
using graph::Graph;
using graph::Node;
using graph::Value;
using op::AxisCut;
using Ints = std::vector<std::int64_t>;

Ints dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }
bool is_low(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
std::int64_t sum_of(const Ints& sizes, std::size_t count) {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count), std::int64_t{0});
}

// How a value is read in chunks.
struct Reading {
  int region = 0, dim = 0;
  std::int64_t unit = 1;  // indices of a row
  bool own = false;
};

// Writes nodes in the order of the old graph, a node of a region as all its chunks, and notes where each
// stands; `ordered` puts them there.
class ChunkWriter {
 public:
  ChunkWriter(const Graph& part, const ChunkPlan& plan, int position)
      : part_(part),
        plan_(plan),
        position_(static_cast<std::size_t>(position)),
        rewriter_(part),
        made_(part) {}

  Result<Graph> run() {
    for (std::int32_t id = 0; id < part_.size(); ++id) {
      if (node_plan(id).region >= 0)
        TR_RETURN_IF_ERROR(put_chunks(id));
      else
        TR_RETURN_IF_ERROR(put_whole(id));
    }
    for (const auto& [name, v] : part_.outputs()) TR_RETURN_IF_ERROR(whole(v).status());
    TR_ASSIGN_OR_RETURN(const Graph written, rewriter_.finish());
    return ordered(written);
  }

 private:
  // What a region has made of a value.
  struct Chunks {
    Reading as;
    std::vector<Value> values;
  };

  const ChunkedNode& node_plan(std::int32_t id) const { return plan_.nodes[static_cast<std::size_t>(id)]; }
  const ChunkRegion& region(int r) const { return plan_.regions[static_cast<std::size_t>(r)]; }
  std::size_t place_of_own(int r) const { return region(r).rows[0].size() == 1 ? 0 : position_; }

  std::int64_t rows_of(const Reading& as, std::size_t k) const {
    const Ints& rows = region(as.region).rows[k];
    return as.own ? rows[place_of_own(as.region)] : sum_of(rows, rows.size());
  }

  // ---- Single nodes

  void note(Value v, const ChunkPlace& place, std::size_t k) {
    if (static_cast<std::size_t>(v.node) < places_.size()) return;
    places_.resize(static_cast<std::size_t>(v.node) + 1, place);
    places_.back().first = std::max(place.first, static_cast<int>(k));
  }
  Result<Value> add(const op::OpDef& def, std::vector<Value> inputs, Attrs attrs, std::string_view name,
                    const ChunkPlace& place, std::size_t k) {
    TR_ASSIGN_OR_RETURN(const Value v, rewriter_.add(def, std::move(inputs), std::move(attrs),
                                                     fmt::format("{}/chunk{}", name, k), ""));
    note(v, place, k);
    return v;
  }
  const TensorType& type(Value v) const { return rewriter_.to().type(v); }

  Result<Value> slice(Value v, int dim, std::int64_t begin, std::int64_t size, std::string_view name,
                      const ChunkPlace& place, std::size_t k) {
    Ints begins(static_cast<std::size_t>(type(v).shape.rank()), 0), ends = dims_of(type(v).shape);
    const auto d = static_cast<std::size_t>(dim);
    if (size == ends[d]) return v;
    // An end of 0 would be counted from the end.
    begins[d] = size == 0 ? ends[d] : begin;
    if (size > 0) ends[d] = begin + size;
    return add(op::kSlice, {v}, {{"begin", std::move(begins)}, {"end", std::move(ends)}}, name, place, k);
  }
  Result<Value> concat(std::vector<Value> parts, int dim, std::string_view name, const ChunkPlace& place,
                       std::size_t k) {
    if (parts.size() == 1) return parts[0];
    return add(op::kConcat, std::move(parts), {{"axis", std::int64_t{dim}}}, name, place, k);
  }

  // ---- Values

  // All of an old value.
  Result<Value> whole(Value old) {
    if (!rewriter_.at(old).is_null()) return rewriter_.at(old);
    const auto& chunks = made_[old];
    TR_CHECK(!chunks.empty(), "node {} was not put", old.node);
    TR_ASSIGN_OR_RETURN(const Value v, join(old, chunks[0]));
    rewriter_.map(old, v);
    return v;
  }

  // Chunks one after the other have the rows of the positions in another order than the whole has.
  Result<Value> join(Value old, const Chunks& chunks) {
    const ChunkRegion& r = region(chunks.as.region);
    const ChunkPlace place = place_behind(plan_, old.node, true);
    const std::string& name = part_.node(old.node).name;
    const std::size_t last = r.num_chunks() - 1;
    const std::size_t positions = r.rows[0].size();
    if (chunks.as.own || r.by_position || positions == 1)
      return concat(chunks.values, chunks.as.dim, name, place, last);
    std::vector<Value> pieces;
    for (std::size_t p = 0; p < positions; ++p)
      for (std::size_t k = 0; k <= last; ++k) {
        const std::int64_t begin = sum_of(r.rows[k], p) * chunks.as.unit,
                           size = r.rows[k][p] * chunks.as.unit;
        TR_ASSIGN_OR_RETURN(const Value piece,
                            slice(chunks.values[k], chunks.as.dim, begin, size, name, place, last));
        pieces.push_back(piece);
      }
    return concat(std::move(pieces), chunks.as.dim, name, place, last);
  }

  // An old value in chunks, as a region reads it.
  Result<std::vector<Value>> in_chunks(Value old, const Reading& as) {
    // A position would not take part in the exchanges of other positions' chunks if it read its own alone.
    const bool rejoins = as.own && region(as.region).by_position;
    for (const Chunks& made : made_[old])
      if (!rejoins && made.as.region == as.region && made.as.dim == as.dim && made.as.own == as.own)
        return made.values;
    TR_ASSIGN_OR_RETURN(const Value from, whole(old));
    const ChunkRegion& r = region(as.region);
    const ChunkPlace place = place_behind(plan_, old.node, true);
    const std::string& name = part_.node(old.node).name;
    Chunks made{as, {}};
    for (std::size_t k = 0; k < r.num_chunks(); ++k) {
      std::vector<Value> pieces;
      std::int64_t begin_of_position = 0;
      for (std::size_t p = 0; p < r.rows[k].size(); ++p) {
        std::int64_t begin = as.own ? 0 : begin_of_position;
        for (std::size_t before = 0; before < r.num_chunks(); ++before) {
          begin_of_position += r.rows[before][p];
          if (before < k) begin += r.rows[before][p];
        }
        if (as.own ? p != place_of_own(as.region) : r.rows[k][p] == 0) continue;
        TR_ASSIGN_OR_RETURN(const Value piece,
                            slice(from, as.dim, begin * as.unit, r.rows[k][p] * as.unit, name, place, k));
        pieces.push_back(piece);
      }
      TR_ASSIGN_OR_RETURN(const Value v, concat(std::move(pieces), as.dim, name, place, k));
      made.values.push_back(v);
    }
    made_[old].push_back(made);
    return made.values;
  }

  // ---- Nodes

  Status put_whole(std::int32_t id) {
    std::vector<Value> inputs;
    for (const Value v : part_.node(id).inputs) {
      TR_ASSIGN_OR_RETURN(const Value now, whole(v));
      inputs.push_back(now);
    }
    TR_ASSIGN_OR_RETURN(const Value v, rewriter_.copy(id, std::move(inputs), part_.node(id).attrs));
    note(v, plan_.places[static_cast<std::size_t>(id)], 0);
    return {};
  }

  Status put_chunks(std::int32_t id) {
    const Node& node = part_.node(id);
    const ChunkedNode& chunked = node_plan(id);
    const std::size_t num_chunks = region(chunked.region).num_chunks();
    std::vector<std::vector<Value>> inputs;  // per input its chunks
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const AxisCut& cut = chunked.option.inputs[i];
      std::vector<Value> values;
      if (cut.cuts()) {
        TR_ASSIGN_OR_RETURN(values, in_chunks(node.inputs[i], {chunked.region, cut.dim,
                                                               chunked.input_units[i], chunked.own_inputs}));
      } else {
        TR_ASSIGN_OR_RETURN(const Value v, whole(node.inputs[i]));
        values.assign(num_chunks, v);
      }
      inputs.push_back(std::move(values));
    }
    std::vector<Value> nodes;  // output 0 of each chunk
    for (std::size_t k = 0; k < num_chunks; ++k) {
      std::vector<Value> own;
      for (const auto& values : inputs) own.push_back(values[k]);
      TR_ASSIGN_OR_RETURN(const Value v, put_chunk(id, k, std::move(own)));
      nodes.push_back(v);
    }
    return keep_outputs(id, nodes);
  }

  Result<Value> put_chunk(std::int32_t id, std::size_t k, std::vector<Value> inputs) {
    const Node& node = part_.node(id);
    const ChunkedNode& chunked = node_plan(id);
    const ChunkPlace& place = plan_.places[static_cast<std::size_t>(id)];
    const ChunkRegion& r = region(chunked.region);
    if (r.by_position && node.def == &op::kTakePart && chunked.move == SampleMove::kScatter) {
      const AxisCut& cut = chunked.option.inputs[0];
      const std::int64_t size = k == position_ ? type(inputs[0]).shape[cut.dim] : 0;
      return slice(inputs[0], cut.dim, 0, size, node.name, place, k);
    }
    if (r.by_position && node.def == &op::kAllgather && chunked.move == SampleMove::kGather)
      return broadcast(id, k, inputs[0]);
    Attrs attrs = node.attrs;
    const AxisCut& out = chunked.option.outputs[0];
    if (!node.def->shape_attr.empty() && out.cuts()) {
      Ints dims = dims_of(node.outputs[0].shape);
      const Reading as{chunked.region, out.dim, chunked.output_units[0], chunked.own_outputs};
      dims[static_cast<std::size_t>(out.dim)] = rows_of(as, k) * as.unit;
      attrs.set(std::string(node.def->shape_attr), std::move(dims));
    }
    if (chunked.move != SampleMove::kNone) set_sizes(chunked, k, attrs);
    return add(*node.def, std::move(inputs), std::move(attrs), node.name, place, k);
  }

  // What every position has of the chunk that is moved.
  void set_sizes(const ChunkedNode& chunked, std::size_t k, Attrs& attrs) const {
    Ints sizes = region(chunked.region).rows[k];
    const std::int64_t unit = chunked.output_units[0];
    for (std::int64_t& size : sizes) size *= unit;
    const bool gathers = chunked.move == SampleMove::kGather;
    const bool equal = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
    if (!gathers && attrs.find("extent") != nullptr)
      attrs.set("extent", equal ? std::int64_t{-1} : sizes[position_]);
    const bool turns = attrs.find("sizes") == nullptr;
    if (equal) sizes.clear();
    attrs.set(!turns ? "sizes" : gathers ? "sizes_from" : "sizes_to", std::move(sizes));
  }

  // The chunk of position k, from there to all; what the others bring is of no interest.
  Result<Value> broadcast(std::int32_t id, std::size_t k, Value own) {
    const Node& node = part_.node(id);
    const ChunkedNode& chunked = node_plan(id);
    const ChunkPlace& place = plan_.places[static_cast<std::size_t>(id)];
    if (k != position_) {
      Ints dims = dims_of(type(own).shape);
      dims[static_cast<std::size_t>(chunked.option.inputs[0].dim)] =
          region(chunked.region).rows[k][k] * chunked.input_units[0];
      TR_ASSIGN_OR_RETURN(own, add(op::kFill, {}, {{"dtype", type(own).dtype}, {"shape", std::move(dims)}},
                                   node.name, place, k));
    }
    return add(op::kBroadcast, {own},
               {{"root", static_cast<std::int64_t>(k)},
                {"label", node.attrs.get_text("label")},
                {"axis", node.attrs.get_text("axis")}},
               node.name, place, k);
  }

  Status keep_outputs(std::int32_t id, const std::vector<Value>& nodes) {
    const ChunkedNode& chunked = node_plan(id);
    for (std::size_t o = 0; o < part_.node(id).outputs.size(); ++o) {
      const Value old{id, static_cast<std::int32_t>(o)};
      std::vector<Value> values;
      for (const Value v : nodes) values.push_back({v.node, v.index + old.index});
      const AxisCut& cut = chunked.option.outputs[o];
      if (cut.cuts()) {
        made_[old].push_back(
            {{chunked.region, cut.dim, chunked.output_units[o], chunked.own_outputs}, std::move(values)});
        continue;
      }
      TR_ASSIGN_OR_RETURN(const Value v, sum(id, values));
      rewriter_.map(old, v);
    }
    return {};
  }

  // In the order of the chunks. Values of 16 bits are added in 32, so that they are rounded once more, not
  // once per chunk.
  Result<Value> sum(std::int32_t id, std::vector<Value> values) {
    const std::string& name = part_.node(id).name;
    const ChunkPlace place = place_behind(plan_, id, false);
    const DType dtype = type(values[0]).dtype;
    const auto cast = [&](Value v, DType to, std::size_t k) {
      return add(op::kCast, {v}, {{"dtype", to}}, name, place, k);
    };
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (is_low(dtype)) {
        TR_ASSIGN_OR_RETURN(values[k], cast(values[k], DType::kF32, k));
      }
      if (k > 0) {
        TR_ASSIGN_OR_RETURN(values[k], add(op::kAdd, {values[k - 1], values[k]}, {}, name, place, k));
      }
    }
    if (!is_low(dtype)) return values.back();
    return cast(values.back(), dtype, values.size() - 1);
  }

  // The nodes in the order of their places.
  Result<Graph> ordered(const Graph& written) const {
    std::vector<std::int32_t> order(places_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      const ChunkPlace &x = places_[static_cast<std::size_t>(a)], &y = places_[static_cast<std::size_t>(b)];
      return std::tuple(x.level, x.waits, x.first) < std::tuple(y.level, y.waits, y.first);
    });
    graph::Rewriter rewriter(written);
    for (const std::int32_t id : order) TR_RETURN_IF_ERROR(rewriter.copy(id).status());
    TR_ASSIGN_OR_RETURN(Graph made, rewriter.finish());
    TR_RETURN_IF_ERROR(graph::verify(made));
    return made;
  }

  const Graph& part_;
  const ChunkPlan& plan_;
  const std::size_t position_;
  graph::Rewriter rewriter_;
  graph::ValueMap<std::vector<Chunks>> made_;  // of old values
  std::vector<ChunkPlace> places_;             // of new nodes
};

// The graphs of positions differ in sizes only.
Status expect_like(const Graph& part, const ChunkPlan& plan) {
  if (static_cast<std::size_t>(part.size()) == plan.nodes.size()) return {};
  return error(Code::kInternal,
               "[parallel] the graph of a position has {} nodes: expected {}, as position 0 has", part.size(),
               plan.nodes.size());
}

}  // namespace

Result<Graph> chunk_graph(const Graph& part, const ChunkPlan& plan, int position) {
  if (plan.regions.empty()) return part;
  TR_RETURN_IF_ERROR(expect_like(part, plan));
  return ChunkWriter(part, plan, position).run();
}

Result<Graph> shard_in_chunks(const Graph& whole, const AxisLayouts& layouts, const ChunkRequest& request,
                              int position) {
  TR_ASSIGN_OR_RETURN(const Graph part, shard_graph(whole, layouts, position));
  if (!request.asks()) return part;
  TR_ASSIGN_OR_RETURN(const Graph first,
                      position == 0 ? Result<Graph>(part) : shard_graph(whole, layouts, 0));
  return chunk_graph(part, choose_chunks(first, layouts.axis, request), position);
}

}  // namespace trireme::parallel
