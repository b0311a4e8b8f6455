#include "tests/comm/split_layers.h"

#include "trireme/op/ops.h"

namespace trireme::comm::testing {
namespace {

using graph::Builder;
using graph::Value;
using Ints = std::vector<std::int64_t>;

// Pieces that differ by at most one, larger ones first.
Ints pieces_of(std::int64_t extent, int world) {
  Ints sizes;
  for (int r = 0; r < world; ++r) sizes.push_back(extent / world + (r < extent % world ? 1 : 0));
  return sizes;
}

struct Range {
  std::int64_t begin = 0, end = 0;
};
Range piece_of(const Ints& sizes, int rank) {
  Range range;
  for (int r = 0; r < rank; ++r) range.begin += sizes[static_cast<std::size_t>(r)];
  range.end = range.begin + sizes[static_cast<std::size_t>(rank)];
  return range;
}

// The range along one dimension, all of the others.
Value cut(Builder& b, Value x, int dim, Range range) {
  const Shape shape = b.type(x).shape;
  Ints begin(static_cast<std::size_t>(shape.rank()), 0), end(shape.dims().begin(), shape.dims().end());
  begin[static_cast<std::size_t>(dim)] = range.begin;
  end[static_cast<std::size_t>(dim)] = range.end;
  return b.add_node(op::kSlice, {x}, {{"begin", begin}, {"end", end}});
}

Value weight(Builder& b, const Layers& layers, std::size_t layer) {
  return b.variable(layers.names[2 * layer], layers.dtype, {layers.widths[layer + 1], layers.widths[layer]});
}
Value bias(Builder& b, const Layers& layers, std::size_t layer) {
  return b.variable(layers.names[2 * layer + 1], layers.dtype, {layers.widths[layer + 1]});
}

// What the rank before had; tokens of what was sent are outputs, or nobody would send.
Value from_before(Builder& b, const Share& share, Value mine, const std::string& name) {
  const std::int64_t next = (share.rank + 1) % share.world,
                     before = (share.rank + share.world - 1) % share.world;
  // The same slot on both sides of a message, and one for each direction of a pair of ranks.
  const std::int64_t slot = 100 + 10 * static_cast<std::int64_t>(name.size());
  b.output("sent:" + name, b.add_node(op::kSend, {mine}, {{"peer", next}, {"slot", slot + share.rank}}));
  const TensorType type = b.type(mine);
  return b.add_node(op::kRecv, {},
                    {{"peer", before},
                     {"slot", slot + before},
                     {"dtype", type.dtype},
                     {"shape", Ints(type.shape.dims().begin(), type.shape.dims().end())}});
}

}  // namespace

void add_scores(Builder& b, Value logits, const Samples& samples) {
  b.output("loss", b.sum(b.softmax_cross_entropy(logits, samples.labels, samples.weights)));
  b.output("correct", b.sum(b.add_node(op::kCorrect, {logits, samples.labels, samples.weights})));
}

Value whole_layers(Builder& b, const Layers& layers, Value x) {
  for (std::size_t l = 0; l < 3; ++l) {
    x = b.bias_add(b.matmul(x, weight(b, layers, l), false, true), bias(b, layers, l));
    if (l < 2) x = b.relu(x);
  }
  return x;
}

Value split_layers(Builder& b, const Layers& layers, const Share& share, Samples& samples) {
  const op::Attrs world{{"world", std::int64_t{share.world}}};
  if (share.passes_samples && share.world > 1) {
    samples.x = from_before(b, share, samples.x, "x");
    samples.labels = from_before(b, share, samples.labels, "labels");
    samples.weights = from_before(b, share, samples.weights, "weights");
  }
  const Shape own = b.type(samples.x).shape;
  // A factor of 1 that rank 0 alone knows.
  const Value factor = b.add_node(op::kBroadcast, {b.fill(share.rank == 0 ? 1 : 0, layers.dtype, own)},
                                  {{"label", std::string("factor")}});
  Value x = b.add_node(op::kAllgather, {b.mul(samples.x, factor)}, world);

  const Ints columns = pieces_of(layers.widths[1], share.world);
  const Range mine = piece_of(columns, share.rank);
  x = b.relu(b.bias_add(b.matmul(x, cut(b, weight(b, layers, 0), 0, mine), false, true),
                        cut(b, bias(b, layers, 0), 0, mine)));
  op::Attrs gather = world;
  gather.set("dim", std::int64_t{1});
  gather.set("sizes", columns);
  x = b.add_node(op::kAllgather, {x}, gather);

  const Range next = piece_of(pieces_of(layers.widths[2], share.world), share.rank);
  x = b.relu(b.bias_add(b.matmul(x, cut(b, weight(b, layers, 1), 0, next), false, true),
                        cut(b, bias(b, layers, 1), 0, next)));
  x = b.matmul(x, cut(b, weight(b, layers, 2), 1, next), false, true);
  // The sum over ranks twice, half of it each way: whole, of which the own rows are taken, and in pieces.
  const Value half = b.add_node(op::kScale, {x}, {{"factor", 0.5}});
  const Value whole =
      cut(b, b.add_node(op::kAllreduce, {half}), 0, {own[0] * share.rank, own[0] * (share.rank + 1)});
  x = b.add(whole, b.add_node(op::kReduceScatter, {half}, world));
  return b.bias_add(x, bias(b, layers, 2));
}

}  // namespace trireme::comm::testing
