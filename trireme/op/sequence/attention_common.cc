#include <cmath>

#include "trireme/op/sequence/attention.h"

namespace trireme::op::detail {

std::vector<AttrSpec> attention_attrs() {
  return {{"causal", false, "row i sees keys 0...i only"}, {"scale", 0.0, "of the scores; 0: 1 / sqrt(D)"}};
}

AttentionSizes::AttentionSizes(const TensorType& q, const TensorType& k, const TensorType& v,
                               const Attrs& attrs)
    : batch(q.shape[0]),
      heads(q.shape[1]),
      queries(q.shape[2]),
      keys(k.shape[2]),
      depth(q.shape[3]),
      width(v.shape[3]),
      causal(attrs.get_bool("causal")),
      scale(attrs.get_float("scale")) {
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(depth));
}

double AttentionSizes::num_pairs() const {
  const auto rows = static_cast<double>(queries), columns = static_cast<double>(keys);
  const double seen = std::min(rows, columns);  // rows that see one more key than the row before
  const double pairs = causal ? seen * (seen + 1) / 2 + (rows - seen) * columns : rows * columns;
  return pairs * static_cast<double>(batch) * static_cast<double>(heads);
}

Result<TensorType> infer_attention(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_floating("q", in[0]));
  TR_RETURN_IF_ERROR(expect_rank("q", in[0], 4));
  TR_RETURN_IF_ERROR(expect_rank("k", in[1], 4));
  TR_RETURN_IF_ERROR(expect_rank("v", in[2], 4));
  const Shape &q = in[0].shape, &k = in[1].shape, &v = in[2].shape;
  if (q[3] < 1) return error(Code::kInvalid, "q: got {}, expected at least 1 feature", in[0].to_string());
  TR_RETURN_IF_ERROR(expect_type("k", in[1], {in[0].dtype, {q[0], q[1], k[2], q[3]}}));
  TR_RETURN_IF_ERROR(expect_type("v", in[2], {in[0].dtype, {q[0], q[1], k[2], v[3]}}));
  const double scale = attrs.get_float("scale");
  if (!(std::isfinite(scale) && scale >= 0))
    return error(Code::kInvalid, "attribute 'scale': got {}, expected a finite value of at least 0", scale);
  return TensorType{in[0].dtype, {q[0], q[1], q[2], v[3]}};
}

Tally attention_rows(const AttentionSizes& s) {
  return Tally::multiply_adds(static_cast<double>(s.depth)) +
         Tally{.add = 2, .mul = 1, .div = 1, .compare = 1, .exp = 1};
}

Tally attention_gradients(const AttentionSizes& s) {
  const auto depth = static_cast<double>(s.depth), width = static_cast<double>(s.width);
  return attention_rows(s) + Tally::multiply_adds(2 * depth + 2 * width + 1) + Tally{.add = 1, .mul = 2};
}

cost::OpCost attention_cost(TypeSpan in, TypeSpan out, const AttentionSizes& s, const Tally& t, bool dual) {
  double written = 0;
  for (const TensorType& o : out) written += elems(o);
  const double pairs = s.num_pairs();
  // Products along features, maximum, sum and product along keys: folds one after the other.
  const double depth =
      log_depth(static_cast<double>(s.depth)) + 3 * log_depth(static_cast<double>(s.keys)) + 3;
  return {.flops = pairs * t.flops(dual),
          .bytes = io_bytes(in, out),
          .work = std::max(pairs * t.work(dual), written * depth),
          .depth = written > 0 ? depth : 0};
}

cost::OpCost attention_part_cost(TypeSpan in, TypeSpan out, AttentionSizes s, const Tally& t) {
  s.causal = false;
  return attention_cost(in, out, s, t, false);
}

std::vector<LayoutOption> with_causal_queries(std::vector<LayoutOption> options, TypeSpan in,
                                              const Attrs& attrs, LayoutOption queries) {
  if (!attrs.get_bool("causal") || in[0].shape[2] == 0) return options;
  queries.rewritten = true;
  options.push_back(std::move(queries));
  return options;
}

std::vector<LayoutOption> attention_layout(const Attrs& attrs, std::vector<bool> inputs_are_queries,
                                           std::vector<bool> outputs_are_queries) {
  std::vector<LayoutOption> options;
  for (const int d : {0, 1}) {
    options.push_back({std::vector<AxisCut>(inputs_are_queries.size(), d),
                       std::vector<AxisCut>(outputs_are_queries.size(), d)});
  }
  if (attrs.get_bool("causal")) return options;
  LayoutOption queries;
  for (const bool is : inputs_are_queries) queries.inputs.emplace_back(is ? 2 : kReplicate);
  for (const bool is : outputs_are_queries) queries.outputs.emplace_back(is ? 2 : kPartial);
  options.push_back(std::move(queries));
  return options;
}

}  // namespace trireme::op::detail
