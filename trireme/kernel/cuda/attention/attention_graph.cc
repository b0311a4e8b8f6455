#include "trireme/kernel/cuda/attention/attention_graph.h"

#include <array>

namespace trireme::kernel::cuda {
namespace {

using op::detail::AttentionSizes;

cudnnDataType_t narrow_type(DType d) { return d == DType::kF16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16; }

// Tensors by the role of their dimensions: a, b of [B, H, a, b].
class Pieces {
 public:
  Pieces(DnnGraph& graph, const AttentionSizes& s, DType dtype, AttentionLayout layout)
      : graph_(graph), s_(s), dtype_(dtype), layout_(layout) {}

  Dims dims(std::int64_t a, std::int64_t b) const { return {s_.batch, s_.heads, a, b}; }
  // `parts` operands share the rows of tokens where they are packed: q, k, v do.
  std::int64_t operand(std::int64_t a, std::int64_t b, std::int64_t parts) {
    return graph_.tensor(dtype_, dims(a, b), strides(a, b, parts));
  }
  // The same memory again, inside the graph.
  std::int64_t seen_operand(std::int64_t a, std::int64_t b, std::int64_t parts) {
    return graph_.between(narrow_type(dtype_), dims(a, b), strides(a, b, parts));
  }
  // Memory [B, H, a, b] seen as [B, H, b, a].
  std::int64_t turned_operand(std::int64_t a, std::int64_t b, std::int64_t parts) {
    const Dims s = strides(a, b, parts);
    return graph_.tensor(dtype_, dims(b, a), {s[0], s[1], s[3], s[2]});
  }
  std::int64_t row_numbers() {
    return graph_.tensor(DType::kF32, dims(s_.queries, 1), row_major(dims(s_.queries, 1)));
  }
  std::int64_t rows() { return virtual_of(CUDNN_DATA_FLOAT, dims(s_.queries, 1)); }
  std::int64_t scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return virtual_of(type, dims(s_.queries, s_.keys));
  }
  std::int64_t narrow_scores() { return scores(narrow_type(dtype_)); }
  std::int64_t turned_scores() {
    return graph_.between(narrow_type(dtype_), dims(s_.keys, s_.queries), turned(s_.queries, s_.keys));
  }
  std::int64_t virtual_of(cudnnDataType_t type, const Dims& d) {
    return graph_.between(type, d, row_major(d));
  }

  std::int64_t apply(cudnnPointwiseMode_t mode, std::initializer_list<std::int64_t> in) {
    const std::int64_t y = scores();
    graph_.pointwise(mode, std::span(in.begin(), in.size()), y);
    return y;
  }
  // Query i sees the keys j <= i.
  std::int64_t mask(std::int64_t s, std::int64_t lowest) {
    const std::int64_t row = scores(CUDNN_DATA_INT32), column = scores(CUDNN_DATA_INT32);
    const std::int64_t sees = scores(CUDNN_DATA_BOOLEAN), masked = scores();
    graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, std::array{s}, row, CUDNN_DATA_INT32, 2);
    graph_.pointwise(CUDNN_POINTWISE_GEN_INDEX, std::array{s}, column, CUDNN_DATA_INT32, 3);
    graph_.pointwise(CUDNN_POINTWISE_CMP_GE, std::array{row, column}, sees, CUDNN_DATA_BOOLEAN);
    graph_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, std::array{s, lowest, sees}, masked);
    return masked;
  }

 private:
  Dims turned(std::int64_t a, std::int64_t b) const { return {s_.heads * a * b, a * b, 1, b}; }
  Dims strides(std::int64_t a, std::int64_t b, std::int64_t parts) const {
    if (layout_ == AttentionLayout::apart) return row_major(dims(a, b));
    const std::int64_t token = parts * s_.heads * b;
    return {a * token, b, token, 1};
  }
  DnnGraph& graph_;
  const AttentionSizes& s_;
  DType dtype_;
  AttentionLayout layout_;
};

}  // namespace

AttentionGraph attention_forward(const Libraries& lib, const AttentionSizes& s, DType dtype,
                                 AttentionLayout layout, bool with_stats) {
  AttentionGraph made{DnnGraph(lib)};
  DnnGraph& g = made.graph;
  AttentionTensors& f = made.tensors;
  Pieces p(g, s, dtype, layout);
  f.q = p.operand(s.queries, s.depth, 3);
  f.k = p.turned_operand(s.keys, s.depth, 3);
  f.v = p.operand(s.keys, s.width, 3);
  f.y = p.operand(s.queries, s.width, 1);
  f.scale = g.scalar(4);
  const std::int64_t products = p.scores();
  g.matmul(f.q, f.k, products);
  std::int64_t scores = p.apply(CUDNN_POINTWISE_MUL, {products, f.scale});
  if (s.causal) {
    f.lowest = g.scalar(4);
    scores = p.mask(scores, f.lowest);
  }
  const std::int64_t top = p.rows(), total = p.rows(), shares = p.narrow_scores();
  g.reduction(CUDNN_REDUCE_TENSOR_MAX, scores, top);
  const std::int64_t below = p.apply(CUDNN_POINTWISE_SUB, {scores, top});
  const std::int64_t exponentials = p.apply(CUDNN_POINTWISE_EXP, {below});
  g.reduction(CUDNN_REDUCE_TENSOR_ADD, exponentials, total);
  const std::int64_t log = p.rows();
  const std::int64_t stats = with_stats ? p.row_numbers() : p.rows();
  if (with_stats) f.stats = stats;
  g.pointwise(CUDNN_POINTWISE_LOG, std::array{total}, log);
  g.pointwise(CUDNN_POINTWISE_ADD, std::array{top, log}, stats);
  g.pointwise(CUDNN_POINTWISE_DIV, std::array{exponentials, total}, shares);
  g.matmul(shares, f.v, f.y);
  return made;
}

AttentionGraph attention_backward(const Libraries& lib, const AttentionSizes& s, DType dtype,
                                  AttentionLayout layout) {
  AttentionGraph made{DnnGraph(lib)};
  DnnGraph& g = made.graph;
  AttentionTensors& b = made.tensors;
  Pieces p(g, s, dtype, layout);
  b.q = p.operand(s.queries, s.depth, 3), b.dq = p.operand(s.queries, s.depth, 3);
  b.k = p.turned_operand(s.keys, s.depth, 3), b.dk = p.operand(s.keys, s.depth, 3);
  b.v = p.turned_operand(s.keys, s.width, 3), b.dv = p.operand(s.keys, s.width, 3);
  b.y = p.operand(s.queries, s.width, 1), b.dy = p.operand(s.queries, s.width, 1);
  b.stats = p.row_numbers(), b.sums = p.row_numbers();
  b.scale = g.scalar(4), b.one = g.scalar(4);

  const std::int64_t meeting = p.virtual_of(CUDNN_DATA_FLOAT, p.dims(s.queries, s.width)),
                     raw_sums = p.rows();
  g.pointwise(CUDNN_POINTWISE_MUL, std::array{b.dy, b.y}, meeting);
  g.reduction(CUDNN_REDUCE_TENSOR_ADD, meeting, raw_sums);
  g.pointwise(CUDNN_POINTWISE_MUL, std::array{raw_sums, b.one}, b.sums);

  const std::int64_t products = p.scores();
  g.matmul(b.q, b.k, products);
  std::int64_t scores = p.apply(CUDNN_POINTWISE_MUL, {products, b.scale});
  scores = p.apply(CUDNN_POINTWISE_SUB, {scores, b.stats});
  if (s.causal) {
    b.lowest = g.scalar(4);
    scores = p.mask(scores, b.lowest);
  }
  const std::int64_t shares = p.apply(CUDNN_POINTWISE_EXP, {scores}), turned_shares = p.turned_scores();
  g.reshape(shares, turned_shares);
  g.matmul(turned_shares, b.dy, b.dv);

  const std::int64_t gains = p.scores();
  g.matmul(b.dy, b.v, gains);
  std::int64_t ds = p.apply(CUDNN_POINTWISE_SUB, {gains, b.sums});
  ds = p.apply(CUDNN_POINTWISE_MUL, {ds, shares});
  const std::int64_t scaled = p.scores(), turned_ds = p.turned_scores();
  g.pointwise(CUDNN_POINTWISE_MUL, std::array{ds, b.scale}, scaled);
  g.reshape(scaled, turned_ds);
  g.matmul(turned_ds, b.q, b.dk);

  const std::int64_t keys = p.seen_operand(s.keys, s.depth, 3);
  g.reshape(b.k, keys);
  g.matmul(scaled, keys, b.dq);
  return made;
}

}  // namespace trireme::kernel::cuda
