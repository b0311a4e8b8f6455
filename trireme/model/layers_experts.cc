// A mixture of experts: a layer of several MLPs, of which a token gets one or two (Shazeer et al. 2017;
// Lepikhin et al. 2020, "GShard", algorithm 1; Fedus et al. 2021, "Switch Transformers").
//
//   shares = softmax(x gate^T)                        [n, t, experts]
//   place  = which slot of which expert a token has   [n, t, experts, slots], zeros and ones
//   sent   = place^T x                                [n, experts, slots, width]
//   y      = (weight * place) mlp_e(sent)             [n, t, width]
//
// An expert has ceil(top * t * capacity / experts) slots per sample, which the tokens get in their order, all
// first choices before the second ones. Samples are the groups of GShard: what a token gets does not depend
// on which other samples are in its shard. The weight of a single expert is its share, so that the gate
// learns; those of two add up to 1. An empty slot holds zeros and weighs nothing.
//
// Placing is a product with zeros and ones: exact, without atomic sums, and cut along samples or experts like
// any other product. It costs 4 t^2 top capacity width flops per sample, as much as attention over t tokens.
#include <algorithm>
#include <cmath>

#include "trireme/model/layers.h"
#include "trireme/op/ops.h"

namespace trireme::model {

using graph::Builder;
using graph::Value;

namespace {

struct Sizes {
  std::int64_t samples, tokens, width, experts, hidden, slots;
};

op::Attrs axes(std::int64_t axis, bool keep_dims = false) {
  return {{"axes", std::vector<std::int64_t>{axis}}, {"keep_dims", keep_dims}};
}

Value cast(Builder& b, Value x, DType dtype) { return b.add_node(op::kCast, {x}, {{"dtype", dtype}}); }

// Samples and experts change places.
Value turned(Builder& b, Value x) {
  return b.add_node(op::kTranspose, {x}, {{"order", std::vector<std::int64_t>{1, 0, 2, 3}}});
}

// The expert with the greatest share of every token, the first of equal ones, as i32 rows of zeros and a one.
Value greatest(Builder& b, Value shares, const Sizes& s) {
  const Value index = b.add_node(op::kArgmax, {shares}, {{"axis", std::int64_t{2}}});
  return b.add_node(op::kOneHot, {index}, {{"depth", s.experts}, {"dtype", DType::kI32}});
}

// i32 [n, t, experts]: which experts a token wants. `second` is null where it wants one.
struct Choice {
  Value first, second;
};

Choice choose(Builder& b, Value shares, std::int64_t top, const Sizes& s) {
  Choice choice{greatest(b, shares, s), {}};
  if (top == 1) return choice;
  // Shares are at least 0: the one that is taken falls below all others.
  const Value taken = b.add_node(op::kScale, {cast(b, choice.first, DType::kF32)}, {{"factor", 2.0}});
  choice.second = greatest(b, b.sub(shares, taken), s);
  return choice;
}

// f32 [n, t, experts, slots] of zeros and ones. Tokens are counted from 1 at the experts that they want, so
// that 0 is no slot; a number beyond the last slot is none either.
Value places(Builder& b, const Choice& c, const Sizes& s) {
  const op::Attrs by_tokens{{"axis", std::int64_t{1}}};
  Value number = b.mul(b.add_node(op::kCumsum, {c.first}, by_tokens), c.first);
  if (!c.second.is_null()) {
    const Value before = b.add_node(op::kSum, {c.first}, axes(1, true));
    const Value count = b.add(b.add_node(op::kCumsum, {c.second}, by_tokens), before);
    number = b.add(number, b.mul(count, c.second));
  }
  const Value slot = b.sub(number, b.fill(1, DType::kI32, {}));
  return b.add_node(op::kOneHot, {slot}, {{"depth", s.slots}, {"dtype", DType::kF32}});
}

// f32 [n, t, experts]: how much the expert counts, 0 where it was not chosen.
Value weights_of(Builder& b, Value shares, const Choice& c) {
  if (c.second.is_null()) return b.mul(shares, cast(b, c.first, DType::kF32));
  const Value chosen = b.mul(shares, cast(b, b.add(c.first, c.second), DType::kF32));
  return b.add_node(op::kDiv, {chosen, b.add_node(op::kSum, {chosen}, axes(2, true))});
}

// f32 [n]: experts * sum over experts of (share of the tokens that want it first) * (its mean share), which
// is 1 where both are even, times `balance` (Fedus et al. 2021, equation 4, per sample). Sums and one factor:
// what does not count its tokens can be cut along them.
Value imbalance(Builder& b, Value shares, const Choice& c, const Sizes& s, double balance) {
  const Value wanted = b.add_node(op::kSum, {cast(b, c.first, DType::kF32)}, axes(1));
  const Value given = b.add_node(op::kSum, {shares}, axes(1));
  const Value sum = b.add_node(op::kSum, {b.mul(wanted, given)}, axes(1));
  const auto tokens = static_cast<double>(std::max<std::int64_t>(s.tokens, 1));
  return b.add_node(op::kScale, {sum},
                    {{"factor", balance * static_cast<double>(s.experts) / (tokens * tokens)}});
}

// x [experts, rows, in] -> [experts, rows, out], with weights of their own for every expert.
Value product(LayerBuilder& l, std::string_view name, Value x, Shape weight, std::string_view init) {
  const LayerBuilder::Scope scope(l, name);
  Builder& b = l.graph();
  const std::int64_t in = weight[1], out = weight[2];
  const Value w = l.parameter("weight", weight, init, {in, out});
  return b.add(b.matmul(x, w), l.parameter("bias", {weight[0], 1, out}, "zeros", {}));
}

Status check(const ExpertsSpec& spec, std::string_view layer) {
  const auto refuse = [&](const char* what, double got, const std::string& expected) {
    return error(Code::kInvalid, "[model] layer '{}': {}: got {}, expected {}", layer, what, got, expected);
  };
  if (spec.experts < 1) return refuse("experts", static_cast<double>(spec.experts), "at least 1");
  if (spec.hidden < 1) return refuse("hidden units", static_cast<double>(spec.hidden), "at least 1");
  if (spec.top < 1 || spec.top > std::min<std::int64_t>(2, spec.experts))
    return refuse("top", static_cast<double>(spec.top),
                  spec.experts == 1 ? "1, for a single expert" : "1 or 2");
  if (!(spec.capacity > 0)) return refuse("capacity", spec.capacity, "more than 0");
  if (!(spec.balance >= 0)) return refuse("balance", spec.balance, "0 or more");
  return {};
}

// At most one slot per token: a token wants an expert once.
std::int64_t slots_of(const ExpertsSpec& spec, std::int64_t tokens) {
  const double share = static_cast<double>(spec.top * tokens) / static_cast<double>(spec.experts);
  const double wanted = std::ceil(share * spec.capacity - 1e-9);  // 1.1 * 10 is 11
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(wanted), 1, std::max<std::int64_t>(tokens, 1));
}

}  // namespace

Value LayerBuilder::experts(std::string_view name, Value x, const ExpertsSpec& spec) {
  if (!usable(name, x, 3)) return {};
  const Scope scope(*this, name);
  if (Status status = check(spec, b_.graph().scope()); !status.ok()) return fail(std::move(status));
  const Shape shape = b_.type(x).shape;
  const std::int64_t width = shape.dim(-1);
  std::int64_t tokens = 1;
  for (int d = 1; d < shape.rank() - 1; ++d) tokens *= shape[d];
  const Sizes s{shape[0], tokens, width, spec.experts, spec.hidden, slots_of(spec, tokens)};
  if (shape.rank() > 3) x = b_.reshape(x, {s.samples, tokens, width});

  const Value shares = b_.add_node(op::kSoftmax, {linear("gate", x, spec.experts, /*bias=*/false)});
  const Choice choice = choose(b_, b_.stop_gradient(shares), spec.top, s);
  const Value place = places(b_, choice, s);
  const Value weight = b_.reshape(weights_of(b_, shares, choice), {s.samples, tokens, s.experts, 1});
  const Shape flat{s.samples, tokens, s.experts * s.slots};
  const Value send = b_.reshape(place, flat), collect = b_.reshape(b_.mul(weight, place), flat);
  if (training_ && spec.balance > 0) penalty(imbalance(b_, shares, choice, s, spec.balance));

  const Value sent =
      b_.reshape(b_.matmul(send, x, /*transpose_a=*/true), {s.samples, s.experts, s.slots, width});
  Value y = b_.reshape(turned(b_, sent), {s.experts, s.samples * s.slots, width});
  y = activation(spec.activation, product(*this, "up", y, {s.experts, width, s.hidden}, init_));
  y = product(*this, "down", y, {s.experts, s.hidden, width}, spec.out_init.empty() ? init_ : spec.out_init);
  y = turned(b_, b_.reshape(y, {s.experts, s.samples, s.slots, width}));
  y = b_.matmul(collect, b_.reshape(y, {s.samples, s.experts * s.slots, width}));
  return shape.rank() > 3 ? b_.reshape(y, shape) : y;
}

}  // namespace trireme::model
