// Every row of the op table against every property an OpDef promises. A new op needs a case in op_cases.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "tests/conformance/mini_graph.h"
#include "tests/conformance/op_cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

std::vector<TensorType> types_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorType> types;
  for (const Tensor& t : tensors) types.push_back(t.type());
  return types;
}

std::vector<Tensor> fresh(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& t : tensors) {
    copies.push_back(*Tensor::allocate(cpu_device(), t.type()));
    copy_to_contiguous(t, copies.back());
  }
  return copies;
}

void expect_same_bits(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.type(), expected.type()) << what;
  const Tensor a = fresh({got})[0], b = fresh({expected})[0];
  if (a.shape().num_elems() == 0) return;
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.type().num_bytes()), 0) << what;
}

void expect_close(const std::vector<double>& got, const std::vector<double>& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << ", element " << i;
  }
}

TEST(OpTable, IsInNameOrderAndEveryRowIsWhole) {
  std::string_view last;
  for (const OpDef* def : op_table()) {
    EXPECT_LT(last, def->name);
    last = def->name;
    EXPECT_EQ(find_op(def->name), def);
    EXPECT_GT(def->doc.size(), 10U) << def->name;
    EXPECT_EQ(def->doc.back(), '.') << def->name;
    EXPECT_FALSE(def->family.empty()) << def->name;
    EXPECT_NE(def->infer, nullptr) << def->name;
    EXPECT_NE(def->cost, nullptr) << def->name;
    EXPECT_EQ(def->reference == nullptr, def->has(kHostOp) || def->has(kFeed)) << def->name;
    EXPECT_EQ(def->has(kMutates), !def->mutated_inputs.empty()) << def->name;
    std::set<std::string_view> names;
    for (const AttrSpec& a : def->attrs) {
      EXPECT_TRUE(names.insert(a.name).second) << def->name << " " << a.name;
      EXPECT_FALSE(a.doc.empty()) << def->name << " " << a.name;
    }
    if (def->has(kRandom)) {
      EXPECT_TRUE(names.contains("stream")) << def->name;
    }
    if (!def->shape_attr.empty()) {
      EXPECT_TRUE(names.contains(def->shape_attr)) << def->name;
    }
  }
  EXPECT_EQ(find_op("no_such_op"), nullptr);
}

TEST(OpTable, EveryOpHasAConformanceCase) {
  std::map<std::string_view, int> cases;
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) {
    ++cases[c.def->name];
    EXPECT_TRUE(names.insert(case_name(c)).second) << case_name(c);
  }
  for (const OpDef* def : op_table())
    EXPECT_GT(cases[def->name], 0) << def->name << ": add a case to op_cases.cc";
}

class OpConformance : public ::testing::TestWithParam<int> {
 protected:
  const OpCase& c() const { return op_cases()[static_cast<std::size_t>(GetParam())]; }
  Attrs attrs() const { return *complete_attrs(*c().def, c().attrs); }
  std::vector<TensorType> out_types(const std::vector<Tensor>& in) const {
    return *infer_types(*c().def, types_of(in), attrs());
  }
  // After a run: what the op wrote, outputs and mutated inputs.
  std::vector<Tensor> written(std::vector<Tensor> in) const {
    std::vector<Tensor> all = *run_op(*c().def, in, attrs());
    for (const int i : c().def->mutated_inputs) all.push_back(in[static_cast<std::size_t>(i)]);
    return all;
  }
};

TEST_P(OpConformance, WritesAllOfWhatItInfers) {
  const auto inputs = make_inputs(c(), DType::kF64);
  const auto outputs = run_op(*c().def, inputs, c().attrs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(types_of(*outputs), out_types(inputs));
  for (const Tensor& t : *outputs) {
    EXPECT_EQ(t.is_phantom(), c().def->reference == nullptr && t.type().num_bytes() > 0);
    if (t.is_phantom()) continue;
    for (const double v : to_doubles(t)) EXPECT_FALSE(std::isnan(v));
  }
}

TEST_P(OpConformance, GivesTheSameBitsForStridedInputs) {
  if (!c().def->reference) return;
  const auto inputs = make_inputs(c(), DType::kF32);
  std::vector<Tensor> strided;
  for (const Tensor& t : inputs) strided.push_back(strided_copy(t));
  const auto expected = written(inputs), got = written(strided);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expect_same_bits(got[i], expected[i], fmt::format("output {}", i));
}

TEST_P(OpConformance, AgreesBetweenF32AndF64) {
  if (!c().def->reference) return;
  const auto single = written(make_inputs(c(), DType::kF32)), wide = written(make_inputs(c(), DType::kF64));
  for (std::size_t i = 0; i < wide.size(); ++i)
    expect_close(to_doubles(single[i]), to_doubles(wide[i]), 2e-5, "f32");
}

TEST_P(OpConformance, RunsInPlaceWhereItSaysSo) {
  const OpDef& def = *c().def;
  if (!def.has(kInPlaceOk)) return;
  const auto inputs = make_inputs(c(), DType::kF32);
  const TensorType out = out_types(inputs)[0];
  if (out.dtype != inputs[0].dtype() || out.num_bytes() != inputs[0].type().num_bytes()) return;
  const Tensor expected = (*run_op(def, inputs, c().attrs))[0];
  const auto own = fresh(inputs);
  const std::vector<Tensor> outputs{Tensor(own[0].buffer(), out)};
  const Attrs complete = attrs();
  KernelArgs args{own, outputs, complete, {}, serial()};
  def.reference(args);
  expect_same_bits(outputs[0], expected, "in place");
}

TEST_P(OpConformance, CostsWhatItMoves) {
  const auto inputs = make_inputs(c(), DType::kF32);
  const auto in = types_of(inputs), out = out_types(inputs);
  const cost::OpCost cost = c().def->cost(in, out, attrs());
  double bytes = 0;
  for (const auto& t : in) bytes += static_cast<double>(t.num_bytes());
  for (const auto& t : out) bytes += static_cast<double>(t.num_bytes());
  for (const int i : c().def->mutated_inputs) {
    if (i != 0) bytes += static_cast<double>(in[static_cast<std::size_t>(i)].num_bytes());  // 0 is the output
  }
  if (c().def->has(kFeed)) bytes = 0;
  EXPECT_EQ(cost.bytes, bytes);
  static const std::set<std::string_view> arithmetic{"elementwise", "reduce", "linalg",
                                                     "nn",          "random", "update"};
  const bool computes = arithmetic.contains(c().def->family) && c().def != &kAssign;
  const bool any = !in.empty() && in[0].shape.num_elems() > 0;
  if (computes && any && out[0].shape.num_elems() > 0) {
    EXPECT_GT(cost.flops, 0);
  }
  if (!computes && !c().def->has(kHostOp)) {
    EXPECT_EQ(cost.flops, 0);
  }
}

TEST_P(OpConformance, RejectsWrongCalls) {
  const OpDef& def = *c().def;
  auto in = types_of(make_inputs(c(), DType::kF32));
  in.push_back({DType::kF32, {}});
  const Status extra = infer_types(def, in, attrs()).status();
  EXPECT_EQ(extra.message(), fmt::format("[op {}] wrong number of inputs: got {}, expected {}", def.name,
                                         in.size(), in.size() - 1));
  in.pop_back();
  Attrs unknown = c().attrs;
  unknown.set("no_such_attribute", true);
  EXPECT_NE(complete_attrs(def, unknown).status().message().find("got 'no_such_attribute'"),
            std::string::npos);
  static const std::set<std::string_view> any_dtype{"cast",         "reshape", "transpose", "allgather",
                                                    "broadcast",    "send",    "enqueue",   "save",
                                                    "broadcast_to", "assign"};
  if (in.empty() || any_dtype.contains(def.name)) return;
  in[0].dtype = DType::kBool;
  const Status wrong = infer_types(def, in, attrs()).status();
  EXPECT_EQ(wrong.code(), Code::kInvalid);
  EXPECT_TRUE(wrong.message().starts_with(fmt::format("[op {}] ", def.name))) << wrong.message();
  EXPECT_NE(wrong.message().find("got bool"), std::string::npos) << wrong.message();
  EXPECT_NE(wrong.message().find("expected"), std::string::npos) << wrong.message();
}

// ---- Gradients
// ------------------------------------------------------------------------------------------------------
double weighted_sum(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs,
                    const Tensor& weights) {
  const auto y = to_doubles((*run_op(def, in, attrs))[0]), w = to_doubles(weights);
  double total = 0;
  for (std::size_t i = 0; i < y.size(); ++i) total += y[i] * w[i];
  return total;
}

template <typename T>
void expect_finite_differences(const OpCase& c, const std::vector<Tensor>& inputs, std::size_t which,
                               const Tensor& weights, const std::vector<double>& got, double eps,
                               double tolerance) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto at = [&](double delta) {
      const auto moved = fresh(inputs);
      moved[which].data<T>()[i] += static_cast<T>(delta);
      return weighted_sum(*c.def, moved, c.attrs, weights);
    };
    const double expected = (at(eps) - at(-eps)) / (2 * eps);
    EXPECT_NEAR(got[i], expected, tolerance * std::max(1.0, std::abs(expected)))
        << "input " << which << ", element " << i;
  }
}

TEST_P(OpConformance, HasTheGradientThatFiniteDifferencesShow) {
  const OpDef& def = *c().def;
  if (!def.grad || def.num_outputs != 1) return;
  const auto inputs = make_inputs(c(), DType::kF64);
  MiniGraph graph;
  std::vector<Value> values;
  for (const Tensor& t : inputs) {
    values.push_back(graph.constant(def.reference ? t : *Tensor::allocate(phantom_device(), t.type())));
  }
  const Value y = *graph.add(def, values, c().attrs);
  if (!is_floating(graph.type(y).dtype)) return;
  const Tensor weights = random_real(graph.type(y), 99);
  const Value dy =
      graph.constant(def.reference ? weights : *Tensor::allocate(phantom_device(), weights.type()));
  const auto grads = graph.grad(y.node, {dy});
  ASSERT_TRUE(grads.ok()) << grads.status().to_string();
  ASSERT_EQ(grads->size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value g = (*grads)[i];
    if (!is_floating(inputs[i].dtype())) {
      EXPECT_TRUE(g.is_null()) << "input " << i;
      continue;
    }
    if (!g.is_null()) {
      ASSERT_EQ(graph.type(g), inputs[i].type()) << "input " << i;
    }
    if (!def.reference) continue;
    const std::vector<double> got =
        g.is_null() ? std::vector<double>(static_cast<std::size_t>(inputs[i].shape().num_elems()))
                    : to_doubles(graph.value(g));
    if (inputs[i].dtype() == DType::kF64) {
      expect_finite_differences<double>(c(), inputs, i, weights, got, 1e-5, 1e-6);
    } else {
      expect_finite_differences<float>(c(), inputs, i, weights, got, 0x1.0p-6, 1e-5);
    }
  }
}

// ---- Layouts
// --------------------------------------------------------------------------------------------------------
struct Cut {
  std::int64_t begin, end;
};

std::int64_t cut_size(const LayoutOption& o, const std::vector<Tensor>& in, const TensorType& out) {
  std::int64_t size = -1;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (o.inputs[i] == kReplicate) continue;
    const std::int64_t own = in[i].shape()[o.inputs[i]];
    TR_CHECK(size < 0 || size == own, "cut dimensions differ: {} and {}", size, own);
    size = own;
  }
  return size >= 0 ? size : out.shape[o.outputs[0]];
}

// Runs one piece and puts it into (or, where it is partial, adds it to) `joined`.
void run_piece(const OpCase& c, const LayoutOption& o, const std::vector<Tensor>& whole, const Tensor& joined,
               Cut cut) {
  std::vector<Tensor> in;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    in.push_back(o.inputs[i] == kReplicate ? whole[i] : whole[i].slice(o.inputs[i], cut.begin, cut.end));
  }
  const bool partial = o.outputs[0] == kPartial;
  const Tensor place = partial ? joined : joined.slice(o.outputs[0], cut.begin, cut.end);
  Attrs attrs = c.attrs;
  if (!c.def->shape_attr.empty()) {
    attrs.set(std::string(c.def->shape_attr),
              std::vector<std::int64_t>(place.shape().dims().begin(), place.shape().dims().end()));
  }
  const auto out = run_op(*c.def, in, attrs);
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  ASSERT_EQ((*out)[0].type(), place.type());
  if (place.shape().num_elems() == 0) return;
  const OpDef& combine = partial ? kAssignAdd : kAssign;
  ASSERT_TRUE(run_op(combine, {place, (*out)[0]}, {}).ok());
}

TEST_P(OpConformance, LayoutsJoinToTheWhole) {
  const OpDef& def = *c().def;
  if (!def.layout) return;
  const auto inputs = make_inputs(c(), DType::kF64);
  const TensorType out = out_types(inputs)[0];
  const Tensor expected = def.reference ? (*run_op(def, fresh(inputs), c().attrs))[0] : Tensor();
  for (const LayoutOption& o : def.layout(types_of(inputs), attrs())) {
    ASSERT_EQ(o.inputs.size(), inputs.size());
    ASSERT_EQ(o.outputs.size(), 1U);
    const int d = o.outputs[0];
    ASSERT_TRUE(d == kPartial || (d >= 0 && d < out.shape.rank())) << d;
    if (!def.reference) continue;
    const std::int64_t size = cut_size(o, inputs, out);
    for (const std::int64_t pieces : {2, 3}) {
      const std::string what = fmt::format("inputs cut along ({}), output along {}, {} pieces",
                                           fmt::join(o.inputs, ", "), d, pieces);
      const Tensor joined = *Tensor::allocate(cpu_device(), out);
      if (out.num_bytes() > 0) std::memset(joined.raw(), d == kPartial ? 0 : 0xFF, out.num_bytes());
      const auto whole = fresh(inputs);
      for (std::int64_t p = 0; p < pieces; ++p) {
        ASSERT_NO_FATAL_FAILURE(
            run_piece(c(), o, whole, joined, {p * size / pieces, (p + 1) * size / pieces}))
            << what;
      }
      if (d == kPartial) {
        expect_close(to_doubles(joined), to_doubles(expected), 1e-12, what);
      } else {
        expect_same_bits(joined, expected, what);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpConformance, ::testing::Range(0, static_cast<int>(op_cases().size())),
                         [](const auto& info) {
                           return case_name(op_cases()[static_cast<std::size_t>(info.param)]);
                         });

}  // namespace
}  // namespace trireme::op::testing
