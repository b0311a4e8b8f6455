// Attention on packed rows and its gradient. Layout and formulas: attention_qkv.h. Made by the pass
// `pack_attention`, after gradients: they have none of their own.
#include "trireme/op/sequence/attention_qkv.h"

#include <cmath>

#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_kernel.h"

namespace trireme::op {
namespace detail {

AttentionSizes packed_sizes(const TensorType& qkv, const Attrs& attrs) {
  const Shape& s = qkv.shape;
  const std::int64_t heads = attrs.get_int("heads");
  const TensorType head{qkv.dtype, {s[0], heads, s[1], s[2] / (3 * heads)}};
  return {head, head, head, attrs};
}

}  // namespace detail

namespace {
using namespace detail;

std::vector<AttrSpec> packed_attrs() {
  std::vector<AttrSpec> attrs = attention_attrs();
  attrs.push_back({"heads", std::int64_t{1}, "into which the rows are cut"});
  return attrs;
}

TensorType type_of_y(const TensorType& qkv) {
  return {qkv.dtype, {qkv.shape[0], qkv.shape[1], qkv.shape[2] / 3}};
}
TensorType type_of_stats(const TensorType& qkv, const Attrs& attrs) {
  return {DType::kF32, {qkv.shape[0], attrs.get_int("heads"), qkv.shape[1]}};
}

Status check(const TensorType& qkv, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("qkv", qkv));
  TR_RETURN_IF_ERROR(expect_rank("qkv", qkv, 3));
  const std::int64_t heads = attrs.get_int("heads"), width = qkv.shape[2];
  if (heads < 1 || width < 1 || width % 3 != 0 || width / 3 % heads != 0)
    return error(Code::kInvalid, "qkv: got {}, expected rows of three times {} heads", qkv.to_string(),
                 heads);
  const double scale = attrs.get_float("scale");
  if (!(std::isfinite(scale) && scale >= 0))
    return error(Code::kInvalid, "attribute 'scale': got {}, expected a finite value of at least 0", scale);
  return {};
}

Types infer(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(check(in[0], attrs));
  return std::vector{type_of_y(in[0]), type_of_stats(in[0], attrs)};
}

Types infer_grad(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(check(in[0], attrs));
  TR_RETURN_IF_ERROR(expect_type("y", in[1], type_of_y(in[0])));
  TR_RETURN_IF_ERROR(expect_type("stats", in[2], type_of_stats(in[0], attrs)));
  TR_RETURN_IF_ERROR(expect_type("dy", in[3], type_of_y(in[0])));
  return std::vector{in[0]};
}

// Columns of head `h` in part `part` (of qkv; 0 of y) of sample `b`.
Tensor columns(const AttentionSizes& s, const Tensor& t, std::int64_t b, std::int64_t part, std::int64_t h) {
  const std::int64_t first = (part * s.heads + h) * s.depth;
  return t.slice(0, b, b + 1).slice(2, first, first + s.depth);
}
// Writes them; t is contiguous.
template <typename T, typename N>
void store_columns(const AttentionSizes& s, const N* from, const Tensor& t, std::int64_t b, std::int64_t part,
                   std::int64_t h) {
  const std::int64_t width = t.shape()[2];
  T* to = t.data<T>() + b * s.queries * width + (part * s.heads + h) * s.depth;
  for (std::int64_t i = 0; i < s.queries; ++i) store(from + i * s.depth, to + i * width, s.depth);
}

template <typename T, typename N>
void load_parts(const AttentionSizes& s, const Tensor& qkv, std::int64_t b, std::int64_t h,
                const AttentionHead<N>& head) {
  load<T>(columns(s, qkv, b, 0, h), head.q);
  load<T>(columns(s, qkv, b, 1, h), head.k);
  load<T>(columns(s, qkv, b, 2, h), head.v);
}

template <typename N>
void forward(const AttentionSizes& s, const AttentionHead<N>& head, N* stats) {
  for (std::int64_t i = 0; i < s.queries; ++i) {
    const std::int64_t n = s.keys_of(i);
    N top = -std::numeric_limits<N>::infinity(), total(0);
    N* const p = head.p;
    for (std::int64_t j = 0; j < n; ++j) {
      p[j] = static_cast<N>(s.scale) * dot(head.q + i * s.depth, head.k + j * s.depth, s.depth);
      if (p[j] > top) top = p[j];
    }
    for (std::int64_t j = 0; j < n; ++j) total += p[j] = math::exp(p[j] - top);
    for (std::int64_t j = 0; j < n; ++j) p[j] = p[j] / total;
    stats[i] = top + math::log(total);
    attention_value(s, p, head.v, n, head.y + i * s.width);
  }
}

template <typename N>
void backward(const AttentionSizes& s, const AttentionHead<N>& head, const N* stats) {
  const auto scale = static_cast<N>(s.scale);
  clear(head.dq, s.queries * s.depth);
  clear(head.dk, s.keys * s.depth);
  clear(head.dv, s.keys * s.width);
  for (std::int64_t i = 0; i < s.queries; ++i) {
    const N *qi = head.q + i * s.depth, *dyi = head.dy + i * s.width;
    const N sum = dot(dyi, head.y + i * s.width, s.width);
    for (std::int64_t j = 0; j < s.keys_of(i); ++j) {
      const N* kj = head.k + j * s.depth;
      const N p = math::exp(scale * dot(qi, kj, s.depth) - stats[i]);
      const N ds = p * (dot(dyi, head.v + j * s.width, s.width) - sum) * scale;
      for (std::int64_t d = 0; d < s.depth; ++d) {
        head.dq[i * s.depth + d] += ds * kj[d];
        head.dk[j * s.depth + d] += ds * qi[d];
        head.dv[j * s.width + d] += p * dyi[d];
      }
    }
  }
}

void run(KernelArgs& a) {
  const AttentionSizes s = packed_sizes(a.in(0).type(), a.attrs);
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using N = Acc<T>;
    Scratch<N> scratch(a.workspace);
    const AttentionHead<N> head(s, scratch, false);
    N* const stats = scratch.take(s.queries);
    for_each_head(s, [&](std::int64_t b, std::int64_t h) {
      load_parts<T>(s, a.in(0), b, h, head);
      forward(s, head, stats);
      store_columns<T>(s, head.y, a.out(0), b, 0, h);
      store(stats, a.out(1).data<float>() + (b * s.heads + h) * s.queries, s.queries);
    });
  });
}

void run_grad(KernelArgs& a) {
  const AttentionSizes s = packed_sizes(a.in(0).type(), a.attrs);
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using N = Acc<T>;
    Scratch<N> scratch(a.workspace);
    const AttentionHead<N> head(s, scratch, true);
    N* const stats = scratch.take(s.queries);
    for_each_head(s, [&](std::int64_t b, std::int64_t h) {
      load_parts<T>(s, a.in(0), b, h, head);
      load<T>(columns(s, a.in(1), b, 0, h), head.y);
      load<float>(a.in(2).slice(0, b, b + 1).slice(1, h, h + 1), stats);
      load<T>(columns(s, a.in(3), b, 0, h), head.dy);
      backward(s, head, stats);
      store_columns<T>(s, head.dq, a.out(0), b, 0, h);
      store_columns<T>(s, head.dk, a.out(0), b, 1, h);
      store_columns<T>(s, head.dv, a.out(0), b, 2, h);
    });
  });
}

template <bool kBackward>
std::size_t workspace(TypeSpan in, const Attrs& attrs) {
  const AttentionSizes s = packed_sizes(in[0], attrs);
  std::size_t bytes = 0;
  dispatch_float(in[0].dtype, [&]<typename T>() {
    Scratch<Acc<T>> scratch;
    AttentionHead<Acc<T>>(s, scratch, kBackward);
    scratch.take(s.queries);
    bytes = scratch.bytes();
  });
  return bytes;
}

cost::OpCost cost_with(TypeSpan in, TypeSpan out, const Attrs& attrs, bool backward) {
  const AttentionSizes s = packed_sizes(in[0], attrs);
  const auto depth = static_cast<double>(s.depth);
  const Tally pair = backward ? Tally::multiply_adds(5 * depth) + Tally{.add = 2, .mul = 3, .exp = 1}
                              : attention_rows(s) + Tally::multiply_adds(depth);
  const Tally row =
      backward ? Tally::multiply_adds(depth) : Tally{.add = 1, .exp = 1};  // a logarithm counts like it
  const auto rows = static_cast<double>(s.batch * s.heads * s.queries);
  cost::OpCost cost = attention_cost(in, out, s, pair, false);
  cost.flops += rows * row.flops(false);
  cost.work += rows * row.work(false);
  return cost;
}
cost::OpCost cost(TypeSpan in, TypeSpan out, const Attrs& attrs) { return cost_with(in, out, attrs, false); }
cost::OpCost cost_grad(TypeSpan in, TypeSpan out, const Attrs& attrs) {
  return cost_with(in, out, attrs, true);
}

std::vector<LayoutOption> layout(TypeSpan, const Attrs&) { return {{{0}, {0, 0}}}; }
std::vector<LayoutOption> layout_grad(TypeSpan, const Attrs&) { return {{{0, 0, 0, 0}, {0}}}; }
}  // namespace

const OpDef kAttentionQkv{
    .name = "attention_qkv",
    .doc = "Attention of rows [B,T,3*H*D] that hold q, k and v: [B,T,H*D] and log-sum-exp [B,H,T].",
    .family = "sequence",
    .num_inputs = 1,
    .num_outputs = 2,
    .attrs = packed_attrs(),
    .infer = infer,
    .reference = run,
    .reference_workspace = workspace<false>,
    .cost = cost,
    .layout = layout};

const OpDef kAttentionQkvGrad{.name = "attention_qkv_grad",
                              .doc = "Gradient of attention_qkv from (qkv, y, stats, dy).",
                              .family = "sequence",
                              .num_inputs = 4,
                              .attrs = packed_attrs(),
                              .infer = infer_grad,
                              .reference = run_grad,
                              .reference_workspace = workspace<true>,
                              .cost = cost_grad,
                              .layout = layout_grad};

}  // namespace trireme::op
