// Embedding, attention and recurrent networks.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"
#include "trireme/op/sequence/attention_qkv.h"
#include "trireme/op/sequence/lstm_kept.h"
#include "trireme/op/sequence/recurrent_kept.h"

namespace trireme::op::testing {
namespace {
using enum Fill;

void add_embedding(std::vector<OpCase>& t) {
  const auto some_rows = [&t](OpCase c) {
    c.skips_work = c.reads_part = true;  // ids name some rows, or none
    t.push_back(std::move(c));
  };
  some_rows({&kEmbedding, "sentences", {{kReal, {5, 3}}, {kLabels, {2, 4}}}});
  some_rows({&kEmbedding, "ids outside", {{kReal, {2, 3}}, {kInts, {6}}}});
  some_rows({&kEmbedding, "uneven rows", {{kReal, {4, 2}}, {kInts, {5}}}});
  some_rows({&kEmbedding, "one id", {{kReal, {4, 2}}, {kLabels32, {}}}});
  some_rows({&kEmbedding, "no ids", {{kReal, {4, 2}}, {kLabels, {3, 0}}}});
  some_rows({&kEmbedding, "no columns", {{kReal, {4, 0}}, {kLabels, {3}}}});
  const auto table = [](std::int64_t rows, std::int64_t columns) {
    return one("shape", Ints{rows, columns});
  };
  t.push_back({&kEmbeddingGrad, "sentences", {{kReal, {2, 4, 3}}, {kLabels, {2, 4}}}, table(5, 3)});
  some_rows({&kEmbeddingGrad, "ids outside", {{kReal, {6, 3}}, {kInts, {6}}}, table(2, 3)});
  some_rows({&kEmbeddingGrad, "uneven rows", {{kReal, {9, 2}}, {kInts, {9}}}, table(4, 2)});
  t.push_back({&kEmbeddingGrad, "one id", {{kReal, {2}}, {kLabels32, {}}}, table(4, 2)});
  t.push_back({&kEmbeddingGrad, "no ids", {{kReal, {3, 0, 2}}, {kLabels, {3, 0}}}, table(4, 2)});
}

// q, k, v, then (outputs) dy, then (q, k, v) again.
std::vector<Input> attention_inputs(Shape q, Shape k, Shape v, int parts) {
  const Shape y{q[0], q[1], q[2], v[3]};
  std::vector<Input> in{{kReal, q}, {kReal, k}, {kReal, v}};
  if (parts > 1) in.push_back({kReal, y});
  if (parts > 2) {
    for (const Shape& s : {q, k, v}) in.push_back({kReal, s});
  }
  return in;
}

void add_attention(std::vector<OpCase>& t) {
  const Attrs causal = one("causal", true), scaled{{"scale", 0.3}, {"causal", true}};
  const OpDef* ops[] = {&kAttention, &kAttentionGrad, &kAttentionGradGrad};
  for (int parts = 1; parts <= 3; ++parts) {
    const auto add = [&](const char* note, const Shape& q, const Shape& k, const Shape& v,
                         const Attrs& attrs) {
      OpCase c{ops[parts - 1], note, attention_inputs(q, k, v, parts), attrs};
      c.first_order_only = parts == 2;  // third derivatives of attention
      t.push_back(std::move(c));
    };
    add("heads", {2, 2, 3, 2}, {2, 2, 3, 2}, {2, 2, 3, 2}, {});
    add("causal", {1, 2, 3, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}, causal);
    add("more keys", {1, 1, 2, 3}, {1, 1, 4, 3}, {1, 1, 4, 2}, causal);
    add("more queries", {1, 1, 4, 2}, {1, 1, 2, 2}, {1, 1, 2, 1}, scaled);
    add("uneven causal", {1, 1, 7, 2}, {1, 1, 5, 2}, {1, 1, 5, 1}, causal);
    add("no keys", {1, 1, 2, 2}, {1, 1, 0, 2}, {1, 1, 0, 2}, {});
    add("no samples", {0, 2, 2, 2}, {0, 2, 2, 2}, {0, 2, 2, 2}, {});
    add("no queries", {1, 1, 0, 2}, {1, 1, 2, 2}, {1, 1, 2, 2}, causal);
  }
}

void add_attention_parts(std::vector<OpCase>& t) {
  const auto add = [&](const char* note, const Shape& q, const Shape& k, const Shape& v, bool causal) {
    for (int parts = 1; parts <= 2; ++parts) {
      OpCase c{parts == 1 ? &kAttentionPart : &kAttentionPartGrad, note, attention_inputs(q, k, v, parts),
               one("causal", causal)};
      c.inputs.push_back({kInts, {}});
      c.skips_work = c.reads_part = true;  // depending on where the queries begin
      t.push_back(std::move(c));
    }
  };
  add("causal", {1, 2, 3, 2}, {1, 2, 6, 2}, {1, 2, 6, 2}, true);
  add("all keys", {2, 1, 2, 3}, {2, 1, 4, 3}, {2, 1, 4, 2}, false);
  add("no queries", {1, 1, 0, 2}, {1, 1, 2, 2}, {1, 1, 2, 2}, true);
}

void add_packed_attention(std::vector<OpCase>& t) {
  const auto add = [&](const char* note, const Shape& qkv, std::int64_t heads, bool causal, double scale) {
    const Attrs attrs{{"heads", heads}, {"causal", causal}, {"scale", scale}};
    const Shape y{qkv[0], qkv[1], qkv[2] / 3};
    t.push_back({&kAttentionQkv, note, {{kReal, qkv}}, attrs});
    t.push_back({&kAttentionQkvGrad,
                 note,
                 {{kReal, qkv}, {kReal, y}, {kWeights, {qkv[0], heads, qkv[1]}}, {kReal, y}},
                 attrs});
  };
  add("heads", {2, 3, 12}, 2, false, 0);
  add("causal", {2, 5, 18}, 3, true, 0.3);
  add("no samples", {0, 3, 6}, 1, false, 0);
  add("no tokens", {2, 0, 6}, 1, true, 0);
}

// The inputs of the forward op, then the gradients of its outputs, then directions for its inputs.
std::vector<Input> recurrent_inputs(std::int64_t gates, bool cell, Shape x, std::int64_t units, int parts) {
  const std::int64_t rows = gates * units;
  const Shape state{x[1], units};
  std::vector<Input> in{{kReal, x}, {kReal, state}}, out{{kReal, {x[0], x[1], units}}, {kReal, state}};
  if (cell) {
    in.push_back({kReal, state});
    out.push_back({kReal, state});
  }
  for (const Shape& s : {Shape{rows, x[2]}, Shape{rows, units}, Shape{rows}, Shape{rows}})
    in.push_back({kReal, s});
  std::vector<Input> all = in;
  if (parts > 1) {
    for (const Input& i : out) all.push_back(i);
  }
  if (parts > 2) {
    for (const Input& i : in) all.push_back(i);
  }
  return all;
}

void add_recurrent(std::vector<OpCase>& t, std::vector<const OpDef*> ops, std::int64_t gates,
                   const Attrs& attrs, const std::string& kind) {
  const bool cell = gates == 4;
  for (int parts = 1; parts <= 3; ++parts) {
    const auto add = [&](const std::string& note, const Shape& x, std::int64_t units) {
      OpCase c{ops[static_cast<std::size_t>(parts - 1)], kind + note,
               recurrent_inputs(gates, cell, x, units, parts), attrs};
      c.first_order_only = parts == 2;  // third derivatives of a recurrent network
      t.push_back(std::move(c));
    };
    add("sequence", {3, 2, 2}, 2);
    add("one step", {1, 1, 3}, 1);
    add("no steps", {0, 2, 2}, 2);
    add("no samples", {2, 0, 2}, 2);
    add("no features", {2, 1, 0}, 2);
  }
}

void add_kept_lstm(std::vector<OpCase>& t) {
  const auto add = [&](const char* note, const Shape& x, std::int64_t units) {
    const Shape state{x[1], units}, y{x[0], x[1], units};
    t.push_back({&kLstmKept, note, recurrent_inputs(4, true, x, units, 1)});
    std::vector<Input> in;
    for (const Shape& s : {x, state, Shape{4 * units, x[2]}, Shape{4 * units, units}, y,
                           Shape{x[0], x[1], 4 * units}, y, y, state, state})
      in.push_back({kReal, s});
    t.push_back({&kLstmKeptGrad, note, in});
  };
  add("sequence", {3, 2, 2}, 2);
  add("one step", {1, 1, 3}, 1);
  add("no steps", {0, 2, 2}, 2);
  add("no samples", {2, 0, 2}, 2);
}

void add_kept(std::vector<OpCase>& t, const std::string& cell, std::int64_t gates) {
  const Attrs attrs = one("cell", cell);
  const auto add = [&](const std::string& note, const Shape& x, std::int64_t units) {
    const bool has_cell = gates == 4;
    t.push_back({&kRecurrentKept, cell + note, recurrent_inputs(gates, has_cell, x, units, 1), attrs});
    std::vector<Input> in = recurrent_inputs(gates, has_cell, x, units, 2);
    in.insert(in.begin() + (has_cell ? 7 : 6), {{kReal, {x[0], x[1], units}}, {kBytes, {0}}});
    OpCase c{&kRecurrentKeptGrad, cell + note, in, attrs};
    c.reads_part = true;  // y is for kernels that kept something
    t.push_back(std::move(c));
  };
  add(" sequence", {3, 2, 2}, 2);
  add(" no samples", {2, 0, 2}, 2);
}
}  // namespace

void add_sequence(std::vector<OpCase>& t) {
  add_embedding(t);
  add_attention(t);
  add_attention_parts(t);
  add_packed_attention(t);
  add_recurrent(t, {&kRnn, &kRnnGrad, &kRnnGradGrad}, 1, {}, "");
  add_recurrent(t, {&kRnn, &kRnnGrad, &kRnnGradGrad}, 1, one("nonlinearity", std::string("relu")), "relu ");
  add_recurrent(t, {&kLstm, &kLstmGrad, &kLstmGradGrad}, 4, {}, "");
  add_recurrent(t, {&kGru, &kGruGrad, &kGruGradGrad}, 3, {}, "");
  add_kept_lstm(t);
  add_kept(t, "lstm", 4);
  add_kept(t, "gru", 3);
  add_kept(t, "rnn_tanh", 1);
  add_kept(t, "rnn_relu", 1);
}

}  // namespace trireme::op::testing
