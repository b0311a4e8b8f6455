// The layer `experts` against plain code: routing with ties and full experts, weights, the balance loss, and
// gradients against differences of the plain code's loss.
#include <cmath>

#include "tests/model/run.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/model/layers.h"
#include "trireme/op/ops.h"

namespace trireme::model {
namespace {

using graph::Value;
using Doubles = std::vector<double>;

constexpr std::int64_t kSamples = 3, kTokens = 6, kWidth = 4, kExperts = 3, kHidden = 5;
const char* const kNames[] = {"e/gate/weight", "e/up/weight", "e/up/bias", "e/down/weight", "e/down/bias"};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// y, and loss = sum of y * probe + sum of weights * penalties, with gradients.
struct Built {
  graph::Graph graph;
  std::vector<Parameter> parameters;
  Status status;
};
Built build(const ExpertsSpec& spec, const Shape& x_shape = {kSamples, kTokens, kWidth},
            bool training = true) {
  Built built;
  graph::Builder b(built.graph);
  LayerBuilder l(b, training);
  const Value x = b.input("x", DType::kF32, x_shape);
  const Value y = l.experts("e", x, spec);
  built.status = l.status();
  built.parameters = l.parameters();
  if (!built.status.ok()) return built;
  b.output("y", y);
  if (!training) return built;
  Value loss = b.sum(b.mul(y, b.input("probe", DType::kF32, x_shape)));
  const Value weights = b.input("weights", DType::kF32, {x_shape[0]});
  for (const Value p : l.penalties()) {
    b.output("penalty", p);
    loss = b.add(loss, b.sum(b.mul(p, weights)));
  }
  b.output("loss", loss);
  std::vector<Value> wrt{x};
  for (const Parameter& p : built.parameters) wrt.push_back(*built.graph.find_variable(p.name));
  const auto grads = graph::add_gradients(built.graph, loss, wrt);
  EXPECT_TRUE(grads.ok()) << grads.status().to_string();
  for (std::size_t i = 0; grads.ok() && i < wrt.size(); ++i)
    b.output("grad:" + (i == 0 ? "x" : built.parameters[i - 1].name), (*grads)[i]);
  built.status = b.status();
  return built;
}

// Values for x, probe, weights and all parameters.
Values made_up_values(const Built& built) {
  Values values;
  for (const auto& [name, t] : made_up(built.graph, 1)) values.emplace(name, t);
  for (const Parameter& p : built.parameters) {
    Tensor t = *Tensor::allocate(cpu_device(), p.type);
    Philox rng(11, hash_text(p.name));
    for (float& v : t.values<float>()) v = 2 * rng.next_uniform() - 1;
    values.emplace(p.name, t);
  }
  return values;
}

Values outcome(const Built& built, const Values& values) {
  exec::Feeds feeds;
  for (const char* name : {"x", "probe", "weights"})
    if (built.graph.find_input(name)) feeds.emplace(name, values.at(name));
  return run(built.graph, values, feeds);
}

std::map<std::string, Doubles> in_doubles(const Values& values) {
  std::map<std::string, Doubles> out;
  for (const auto& [name, t] : values)
    out[name] = Doubles(t.values<float>().begin(), t.values<float>().end());
  return out;
}

// ---- The plain code

struct Plain {
  Doubles y, penalties;
  double loss = 0;
  int dropped = 0;  // choices that found no slot
};

// The second MLP product of expert e on one token, with tanh between.
Doubles mlp(const std::map<std::string, Doubles>& v, std::int64_t e, const double* x) {
  Doubles hidden(v.at("e/up/bias").begin() + e * kHidden, v.at("e/up/bias").begin() + (e + 1) * kHidden);
  for (std::int64_t h = 0; h < kHidden; ++h) {
    for (std::int64_t d = 0; d < kWidth; ++d)
      hidden[at(h)] += x[d] * v.at("e/up/weight")[at((e * kWidth + d) * kHidden + h)];
    hidden[at(h)] = std::tanh(hidden[at(h)]);
  }
  Doubles y(v.at("e/down/bias").begin() + e * kWidth, v.at("e/down/bias").begin() + (e + 1) * kWidth);
  for (std::int64_t d = 0; d < kWidth; ++d)
    for (std::int64_t h = 0; h < kHidden; ++h)
      y[at(d)] += hidden[at(h)] * v.at("e/down/weight")[at((e * kHidden + h) * kWidth + d)];
  return y;
}

Doubles shares_of(const Doubles& gate, const double* x) {
  Doubles shares(kExperts);
  double sum = 0;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    double score = 0;
    for (std::int64_t d = 0; d < kWidth; ++d) score += gate[at(e * kWidth + d)] * x[d];
    sum += shares[at(e)] = std::exp(score);
  }
  for (double& share : shares) share /= sum;
  return shares;
}

// The greatest but for `taken`; the first of ties.
std::int64_t greatest(const Doubles& shares, std::int64_t taken = -1) {
  std::int64_t best = taken == 0 ? 1 : 0;
  for (std::int64_t e = 0; e < kExperts; ++e)
    if (e != taken && shares[at(e)] > shares[at(best)]) best = e;
  return best;
}

void add_sample(const std::map<std::string, Doubles>& v, const ExpertsSpec& spec, std::int64_t n,
                Plain& out) {
  const double* x = v.at("x").data() + n * kTokens * kWidth;
  const auto slots = std::min<std::int64_t>(
      kTokens, std::llround(std::ceil(static_cast<double>(spec.top * kTokens) * spec.capacity / kExperts)));
  std::vector<Doubles> shares;
  std::vector<std::array<std::int64_t, 2>> wanted;
  Doubles firsts(kExperts), means(kExperts);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    shares.push_back(shares_of(v.at("e/gate/weight"), x + t * kWidth));
    const std::int64_t first = greatest(shares.back());
    wanted.push_back({first, greatest(shares.back(), first)});
    firsts[at(first)] += 1.0 / kTokens;
    for (std::int64_t e = 0; e < kExperts; ++e) means[at(e)] += shares.back()[at(e)] / kTokens;
  }
  std::vector<std::int64_t> used(at(kExperts));
  Doubles y(at(kTokens * kWidth));
  for (std::int64_t choice = 0; choice < spec.top; ++choice)
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const std::int64_t e = wanted[at(t)][at(choice)];
      if (used[at(e)]++ >= slots) {
        ++out.dropped;
        continue;
      }
      double weight = shares[at(t)][at(e)];
      if (spec.top == 2) weight /= shares[at(t)][at(wanted[at(t)][0])] + shares[at(t)][at(wanted[at(t)][1])];
      const Doubles part = mlp(v, e, x + t * kWidth);
      for (std::int64_t d = 0; d < kWidth; ++d) y[at(t * kWidth + d)] += weight * part[at(d)];
    }
  double imbalance = 0;
  for (std::int64_t e = 0; e < kExperts; ++e) imbalance += firsts[at(e)] * means[at(e)];
  out.penalties.push_back(spec.balance * kExperts * imbalance);
  out.loss += v.at("weights")[at(n)] * out.penalties.back();
  for (std::size_t i = 0; i < y.size(); ++i) out.loss += y[i] * v.at("probe")[at(n * kTokens * kWidth) + i];
  out.y.insert(out.y.end(), y.begin(), y.end());
}

Plain plain(const std::map<std::string, Doubles>& v, const ExpertsSpec& spec) {
  Plain out;
  for (std::int64_t n = 0; n < kSamples; ++n) add_sample(v, spec, n, out);
  return out;
}

void expect_near(const Tensor& got, const Doubles& expected, double tolerance, const std::string& what) {
  const std::vector<float> values = floats(got);
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << " " << i;
}

Doubles differences(std::map<std::string, Doubles> v, const ExpertsSpec& spec, const std::string& name) {
  constexpr double kStep = 1e-5;
  Doubles slopes;
  for (double& value : v.at(name)) {
    const double middle = value;
    value = middle + kStep;
    const double above = plain(v, spec).loss;
    value = middle - kStep;
    slopes.push_back((above - plain(v, spec).loss) / (2 * kStep));
    value = middle;
  }
  return slopes;
}

// ---- Against the plain code

struct Case {
  std::int64_t top;
  double capacity;
  bool drops;
};

TEST(Experts, RouteWeighAndLearnAsPlainCodeDoes) {
  for (const Case& c : {Case{1, 0.5, true}, Case{1, 1.25, true}, Case{1, 3, false}, Case{2, 0.6, true},
                        Case{2, 1, true}, Case{2, 2, false}}) {
    SCOPED_TRACE(fmt::format("top {}, capacity {}", c.top, c.capacity));
    const ExpertsSpec spec{kExperts, kHidden, c.top, c.capacity, 0.3, "tanh"};
    const Built built = build(spec);
    ASSERT_TRUE(built.status.ok()) << built.status.to_string();
    const Values values = made_up_values(built);
    const Values got = outcome(built, values);
    const auto v = in_doubles(values);
    const Plain expected = plain(v, spec);
    EXPECT_EQ(expected.dropped > 0, c.drops) << "the case shows nothing of full experts";
    expect_near(got.at("y"), expected.y, 1e-5, "y");
    expect_near(got.at("penalty"), expected.penalties, 1e-5, "penalty");
    expect_near(got.at("loss"), {expected.loss}, 1e-5, "loss");
    expect_near(got.at("grad:x"), differences(v, spec, "x"), 1e-4, "gradient of x");
    for (const char* name : kNames)
      expect_near(got.at(std::string("grad:") + name), differences(v, spec, name), 1e-4, name);
  }
}

TEST(Experts, EqualSharesGoToTheFirstExpertsUntilTheseAreFull) {
  for (const std::int64_t top : {1, 2}) {
    const ExpertsSpec spec{kExperts, kHidden, top, 1.5 / static_cast<double>(top), 1, "tanh"};  // 3 slots
    const Built built = build(spec);
    Values values = made_up_values(built);
    for (float& v : values.at("e/gate/weight").values<float>()) v = 0;
    const Values got = outcome(built, values);
    const auto v = in_doubles(values);
    expect_near(got.at("y"), plain(v, spec).y, 1e-5, "y");
    EXPECT_EQ(plain(v, spec).dropped, kSamples * top * 3);
    const std::vector<float> y = floats(got.at("y"));
    for (std::int64_t t = 3; t < kTokens; ++t)
      EXPECT_EQ(y[at(t * kWidth)], 0) << "token " << t << " found no slot, top " << top;
    for (const float p : floats(got.at("penalty"))) EXPECT_FLOAT_EQ(p, 1);  // as even shares have it
  }
}

// ---- Properties

TEST(Experts, ASampleGetsTheSameWhateverElseIsInItsShard) {
  const ExpertsSpec spec{kExperts, kHidden, 2, 0.8, 0.1, "tanh"};
  const Built all = build(spec), one = build(spec, {1, kTokens, kWidth});
  const Values values = made_up_values(all);
  const std::vector<float> together = floats(outcome(all, values).at("y")), x = floats(values.at("x"));
  const std::int64_t size = kTokens * kWidth;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    Values own = values;
    const auto part = [&](const std::vector<float>& of) {
      return std::vector<float>(of.begin() + n * size, of.begin() + (n + 1) * size);
    };
    own.insert_or_assign("x", tensor_of(part(x), {1, kTokens, kWidth}));
    own.insert_or_assign("probe", tensor_of(part(x), {1, kTokens, kWidth}));
    own.insert_or_assign("weights", tensor_of({1}, {1}));
    const std::vector<float> expected = part(together);
    // Products of another size may round differently.
    expect_near(outcome(one, own).at("y"), {expected.begin(), expected.end()}, 1e-6, "y");
  }
}

TEST(Experts, ASingleOneIsAnMlp) {
  graph::Graph g;
  graph::Builder b(g);
  LayerBuilder l(b, false);
  const Value x = b.input("x", DType::kF32, {2, 3, 4});
  b.output("y", l.experts("e", x, {.experts = 1, .hidden = 5, .capacity = 1}));
  b.output("mlp", l.linear("down", l.activation("relu", l.linear("up", x, 5)), 4));
  ASSERT_TRUE(l.status().ok()) << l.status().to_string();
  Values v;
  for (const Parameter& p : l.parameters()) v.emplace(p.name, *Tensor::allocate(cpu_device(), p.type));
  for (auto& [name, t] : v)
    for (std::size_t i = 0; i < t.values<float>().size(); ++i)
      t.values<float>()[i] = 0.1F * static_cast<float>(i % 7) - 0.2F;
  // Their matrices are each other's transposes.
  for (const char* name : {"up", "down"}) {
    const Tensor &own = v.at(fmt::format("e/{}/weight", name)), &other = v.at(fmt::format("{}/weight", name));
    const std::int64_t in = own.shape()[1], out = own.shape()[2];
    for (std::int64_t i = 0; i < in; ++i)
      for (std::int64_t o = 0; o < out; ++o) other.data<float>()[o * in + i] = own.data<float>()[i * out + o];
  }
  const Values out = run(g, v, made_up(g, 1));
  const std::vector<float> y = floats(out.at("y")), mlp = floats(out.at("mlp"));
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], mlp[i], 1e-6) << i;
}

TEST(Experts, TakeTheRowsOfPicturesAsTokens) {
  const ExpertsSpec spec{kExperts, kHidden, 1, 1, 0, "tanh"};
  const Built rows = build(spec, {kSamples, 2, 3, kWidth}), tokens = build(spec);
  ASSERT_TRUE(rows.status.ok()) << rows.status.to_string();
  EXPECT_FALSE(rows.graph.find_output("penalty").has_value()) << "a weight of 0 is no balance loss";
  Values values = made_up_values(tokens);
  const std::vector<float> expected = floats(outcome(tokens, values).at("y"));
  for (const char* name : {"x", "probe"})
    values.insert_or_assign(name, tensor_of(floats(values.at(name)), {kSamples, 2, 3, kWidth}));
  EXPECT_EQ(floats(outcome(rows, values).at("y")), expected);
}

TEST(Experts, HaveNoPenaltyInEvaluation) {
  graph::Graph g;
  graph::Builder b(g);
  LayerBuilder l(b, false);
  l.experts("e", b.input("x", DType::kF32, {2, 3, 4}), {.experts = 2, .hidden = 3});
  EXPECT_TRUE(l.status().ok()) << l.status().to_string();
  EXPECT_TRUE(l.penalties().empty());
}

TEST(Experts, MistakesNameTheLayer) {
  const std::pair<ExpertsSpec, const char*> cases[] = {
      {{.experts = 0, .hidden = 3}, "'e/': experts: got 0, expected at least 1"},
      {{.experts = 2, .hidden = 0}, "hidden units: got 0, expected at least 1"},
      {{.experts = 2, .hidden = 3, .top = 3}, "top: got 3, expected 1 or 2"},
      {{.experts = 1, .hidden = 3, .top = 2}, "top: got 2, expected 1, for a single expert"},
      {{.experts = 2, .hidden = 3, .capacity = 0}, "capacity: got 0, expected more than 0"},
      {{.experts = 2, .hidden = 3, .balance = -1}, "balance: got -1, expected 0 or more"},
      {{.experts = 2, .hidden = 3, .activation = "relo"}, "'relo', expected one of"},
  };
  for (const auto& [spec, message] : cases) {
    const Built built = build(spec);
    ASSERT_FALSE(built.status.ok()) << message;
    EXPECT_NE(built.status.message().find(message), std::string::npos) << built.status.message();
  }
  EXPECT_NE(build({.experts = 2, .hidden = 3}, {2, 4}).status.message().find("'e': got x"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme::model
