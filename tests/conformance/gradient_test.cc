// Gradients of every row against finite differences in f64, first and second order.
#include "tests/conformance/harness.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

double dot(const Tensor& a, const Tensor& b) {
  const auto x = to_doubles(a), y = to_doubles(b);
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) total += x[i] * y[i];
  return total;
}

std::vector<double> values_or_zeros(const MiniGraph& graph, Value v, const TensorType& like) {
  if (v.is_null()) return std::vector<double>(static_cast<std::size_t>(like.shape.num_elems()));
  return to_doubles(graph.value(v));
}

// One run of a case as sum_k <w_k, output k> over its floating outputs, with gradients through OpDef::grad.
struct Weighted {
  MiniGraph graph;
  std::vector<Value> inputs, outputs, weights;  // outputs: the floating ones that take part

  // `only`: the one output that takes part, or -1 for all.
  static Result<Weighted> make(const OpCase& c, const std::vector<Tensor>& in, int only) {
    Weighted w;
    for (const Tensor& t : in) w.inputs.push_back(w.graph.constant(fresh({t})[0]));
    TR_ASSIGN_OR_RETURN(const Value y, w.graph.add(*c.def, w.inputs, c.attrs));
    for (int k = 0; k < w.graph.num_outputs(y.node); ++k) {
      const Value out{y.node, k};
      if (!is_floating(w.graph.type(out).dtype) || (only >= 0 && k != only)) continue;
      w.outputs.push_back(out);
      w.weights.push_back(
          w.graph.constant(random_real(w.graph.type(out), 99 + static_cast<std::uint64_t>(k))));
    }
    return w;
  }
  double total() const {
    double sum = 0;
    for (std::size_t k = 0; k < outputs.size(); ++k)
      sum += dot(graph.value(outputs[k]), graph.value(weights[k]));
    return sum;
  }
};

// d f / d (element i of input `which`) by central differences. f32 inputs (sample weights) move further.
template <typename F>
std::vector<double> differences(const std::vector<Tensor>& inputs, std::size_t which, F f) {
  const bool wide = inputs[which].dtype() == DType::kF64;
  const double eps = wide ? 1e-5 : 0x1.0p-6;
  std::vector<double> result;
  for (std::int64_t i = 0; i < inputs[which].shape().num_elems(); ++i) {
    const auto at = [&](double delta) {
      const auto moved = fresh(inputs);
      if (wide) {
        moved[which].data<double>()[i] += delta;
      } else {
        moved[which].data<float>()[i] += static_cast<float>(delta);
      }
      return f(moved);
    };
    result.push_back((at(eps) - at(-eps)) / (2 * eps));
  }
  return result;
}

class OpGradients : public OpConformance {
 protected:
  bool has_values() const { return def().grad != nullptr && def().reference != nullptr; }
  void expect_first_order(const std::vector<Tensor>& inputs, int only) {
    auto w = Weighted::make(c(), inputs, only);
    ASSERT_TRUE(w.ok()) << w.status().to_string();
    if (w->outputs.empty()) return;
    std::vector<Value> grad_outputs(static_cast<std::size_t>(w->graph.num_outputs(w->outputs[0].node)));
    for (std::size_t k = 0; k < w->outputs.size(); ++k)
      grad_outputs[static_cast<std::size_t>(w->outputs[k].index)] = w->weights[k];
    const auto grads = w->graph.grad(w->outputs[0].node, grad_outputs);
    ASSERT_TRUE(grads.ok()) << grads.status().to_string();
    ASSERT_EQ(grads->size(), inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Value g = (*grads)[i];
      if (!is_floating(inputs[i].dtype())) {
        EXPECT_TRUE(g.is_null()) << "input " << i;
        continue;
      }
      if (!g.is_null()) {
        ASSERT_EQ(w->graph.type(g), inputs[i].type()) << "input " << i;
      }
      const auto expected = differences(
          inputs, i, [&](const std::vector<Tensor>& at) { return Weighted::make(c(), at, only)->total(); });
      expect_close(values_or_zeros(w->graph, g, inputs[i].type()), expected, 2e-6,
                   fmt::format("input {}, output {}", i, only));
    }
  }
};

TEST_P(OpGradients, AreWhatFiniteDifferencesShow) {
  if (!has_values()) return;
  const auto inputs = make_inputs(c(), DType::kF64);
  expect_first_order(inputs, -1);
  const int num_outputs = static_cast<int>(out_types(inputs).size());
  for (int k = 0; num_outputs > 1 && k < num_outputs; ++k) expect_first_order(inputs, k);
}

// <v, d total / d inputs> for fixed v: what the second order differentiates.
Result<Value> gradient_product(Weighted& w, std::vector<Value>& grads, std::vector<Value>& directions) {
  TR_ASSIGN_OR_RETURN(const std::vector<Value> first, w.graph.backward(w.outputs, w.weights, w.inputs));
  for (std::size_t i = 0; i < first.size(); ++i) {
    // The rounding of an f32 gradient (of sample weights) would drown differences of 1e-5.
    if (first[i].is_null() || w.graph.type(first[i]).dtype != DType::kF64) continue;
    grads.push_back(first[i]);
    directions.push_back(w.graph.constant(random_real(w.graph.type(first[i]), 7 + i)));
  }
  return Value{};
}

double product_total(const OpCase& c, const std::vector<Tensor>& inputs) {
  auto w = Weighted::make(c, inputs, -1);
  std::vector<Value> grads, directions;
  TR_CHECK(w.ok() && gradient_product(*w, grads, directions).ok());
  double total = 0;
  for (std::size_t i = 0; i < grads.size(); ++i)
    total += dot(w->graph.value(grads[i]), w->graph.value(directions[i]));
  return total;
}

TEST_P(OpGradients, HaveGradientsOfTheirOwn) {
  if (!has_values()) return;
  const auto inputs = make_inputs(c(), DType::kF64);
  auto w = Weighted::make(c(), inputs, -1);
  ASSERT_TRUE(w.ok());
  if (w->outputs.empty()) return;
  std::vector<Value> grads, directions;
  ASSERT_TRUE(gradient_product(*w, grads, directions).ok());
  if (grads.empty()) return;
  const auto second = w->graph.backward(grads, directions, w->inputs);
  if (c().first_order_only) {
    EXPECT_EQ(second.status().code(), Code::kInvalid);
    EXPECT_NE(second.status().message().find("has no gradient"), std::string::npos)
        << second.status().to_string();
    return;
  }
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    const auto expected =
        differences(inputs, i, [&](const std::vector<Tensor>& at) { return product_total(c(), at); });
    expect_close(values_or_zeros(w->graph, (*second)[i], inputs[i].type()), expected, 2e-5,
                 fmt::format("input {}", i));
  }
}

// Ops without a kernel: the types must fit.
TEST_P(OpGradients, OfHostOpsHaveTheTypesOfTheInputs) {
  if (def().grad == nullptr || def().reference != nullptr) return;
  MiniGraph graph;
  std::vector<Value> values;
  const auto inputs = make_inputs(c(), DType::kF64);
  for (const Tensor& t : inputs)
    values.push_back(graph.constant(*Tensor::allocate(phantom_device(), t.type())));
  const Value y = *graph.add(def(), values, c().attrs);
  const Value dy = graph.constant(*Tensor::allocate(phantom_device(), graph.type(y)));
  const auto grads = graph.grad(y.node, {dy});
  ASSERT_TRUE(grads.ok()) << grads.status().to_string();
  ASSERT_EQ(grads->size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!(*grads)[i].is_null()) {
      EXPECT_EQ(graph.type((*grads)[i]), inputs[i].type()) << "input " << i;
    }
  }
}

TEST(AllreduceGradient, OfAMaximumIsRefusedByName) {
  MiniGraph graph;
  const Value x = graph.constant(*Tensor::allocate(phantom_device(), {DType::kF64, {3}}));
  const Value y = *graph.add(kAllreduce, {x}, {{"reduction", std::string("max")}});
  const auto grads = graph.grad(y.node, {x});
  EXPECT_NE(grads.status().to_string().find("[op allreduce] reduction 'max' has no gradient"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Ops, OpGradients, all_cases(), name_of_case);

}  // namespace
}  // namespace trireme::op::testing
