// Every row of the op table: inference against runs, strides, dtypes, in place, errors. A new op needs a case
// in cases/<family>.cc.
#include <algorithm>
#include <map>
#include <set>

#include "tests/conformance/harness.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {

constexpr DType kAllDTypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16,
                                DType::kI64, DType::kI32, DType::kU8,   DType::kBool};

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
    EXPECT_NE(def->layout, nullptr) << def->name;
    EXPECT_EQ(def->dtypes == 0, def->num_inputs == 0) << def->name;
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

// These have no kernel: their values come from outside (feeds, files, queues) or from other ranks
// (exchanges), so the suites below check their types alone. Everything else in the table runs.
TEST(OpTable, FourteenOpsHaveNoKernelAndAllOthersRun) {
  std::vector<std::string_view> without;
  for (const OpDef* def : op_table())
    if (def->reference == nullptr) without.push_back(def->name);
  EXPECT_EQ(without,
            (std::vector<std::string_view>{"all_to_all", "allgather", "allreduce", "broadcast", "dequeue",
                                           "enqueue", "halo_exchange", "input", "recv", "reduce_scatter",
                                           "restore", "save", "send", "variable"}));
  std::set<std::string_view> ran;
  for (const OpCase& c : op_cases())
    if (c.def->reference != nullptr) ran.insert(c.def->name);
  EXPECT_EQ(ran.size() + without.size(), op_table().size());
}

TEST(OpTable, EveryOpHasAConformanceCase) {
  std::map<std::string_view, int> cases;
  std::set<std::string> names;
  for (const OpCase& c : op_cases()) {
    ++cases[c.def->name];
    EXPECT_TRUE(names.insert(case_name(c)).second) << case_name(c);
  }
  for (const OpDef* def : op_table())
    EXPECT_GT(cases[def->name], 0) << def->name << ": add a case to tests/conformance/cases/";
}

TEST_P(OpConformance, WritesAllOfWhatItInfers) {
  const auto inputs = make_inputs(c(), DType::kF64);
  const auto outputs = run_op(def(), inputs, c().attrs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(types_of(*outputs), out_types(inputs));
  for (const Tensor& t : *outputs) {
    EXPECT_EQ(t.is_phantom(), def().reference == nullptr && t.type().num_bytes() > 0);
    if (t.is_phantom()) continue;
    for (const double v : to_doubles(t)) EXPECT_FALSE(std::isnan(v));
  }
}

TEST_P(OpConformance, GivesTheSameBitsForStridedInputs) {
  if (!def().reference) return;  // FourteenOpsHaveNoKernelAndAllOthersRun
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto inputs = make_inputs(c(), contains(def().dtypes, dtype) ? dtype : DType::kF32);
    std::vector<Tensor> strided;
    for (const Tensor& t : inputs) strided.push_back(strided_copy(t));
    const auto expected = written(inputs), got = written(strided);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_same_bits(got[i], expected[i], fmt::format("{}, output {}", dtype_name(dtype), i));
  }
}

// Unit of rounding of a result in this dtype, with room for a few roundings in f32.
double tolerance_of(DType dtype, double half_slack) {
  if (dtype == DType::kBF16) return 0x1.0p-8 * half_slack;
  if (dtype == DType::kF16) return 0x1.0p-11 * half_slack;
  return is_floating(dtype) ? 2e-5 : 0;
}
// Wider results of an op that stores 16-bit values on the way are no better than these.
double tolerance_of(DType out, DType op, double half_slack) {
  const double own = tolerance_of(out, half_slack);
  return half_slack > 1 && is_floating(out) ? std::max(own, tolerance_of(op, half_slack)) : own;
}

double wrapped(double v, DType dtype) {
  const auto whole = static_cast<std::int64_t>(v);
  if (dtype == DType::kU8) return static_cast<std::uint8_t>(whole);
  if (dtype == DType::kI32) return static_cast<std::int32_t>(whole);
  return v;
}

TEST_P(OpConformance, AgreesWithF64InEveryDtype) {
  if (!def().reference || c().inputs.empty())
    return;  // FourteenOpsHaveNoKernelAndAllOthersRun; ops without inputs
  const bool typed = is_typed(c().inputs[0].fill);
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kF64 || !typed || !contains(def().dtypes, dtype)) continue;
    if (!contains(def().dtypes, DType::kF64))
      continue;  // nothing to compare with: values are recorded elsewhere
    const auto inputs = make_inputs(c(), dtype);
    std::vector<Tensor> wide;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      wide.push_back(is_typed(c().inputs[i].fill) ? converted(inputs[i], DType::kF64) : inputs[i]);
    const auto expected = written(fresh(wide)), got = written(inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::string what = fmt::format("{}, output {}", dtype_name(dtype), i);
      auto values = to_doubles(expected[i]);
      const DType out = got[i].dtype();
      if (!is_floating(out)) {
        for (double& v : values) v = wrapped(v, out);
      }
      expect_close(to_doubles(got[i]), values, tolerance_of(out, dtype, c().half_slack), what);
    }
  }
}

TEST_P(OpConformance, TakesExactlyTheDtypesItNames) {
  if (c().inputs.empty()) return;
  for (const DType dtype : kAllDTypes) {
    std::vector<TensorType> in = types_of(make_inputs(c(), DType::kF64));
    const DType was = in[0].dtype;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (i == 0 || (is_typed(c().inputs[0].fill) && is_typed(c().inputs[i].fill))) in[i].dtype = dtype;
    }
    const auto out = infer_types(def(), in, attrs());
    if (contains(def().dtypes, dtype)) {
      // A second input of fixed dtype goes with a first one of that dtype only.
      if (is_typed(c().inputs[0].fill) || dtype == was) {
        EXPECT_TRUE(out.ok()) << dtype_name(dtype) << ": " << out.status().to_string();
      }
      continue;
    }
    EXPECT_EQ(out.status().code(), Code::kInvalid) << dtype_name(dtype);
    const std::string message(out.status().message());
    EXPECT_TRUE(message.starts_with(fmt::format("[op {}] ", def().name))) << message;
    EXPECT_NE(message.find(fmt::format("got {}", dtype_name(dtype))), std::string::npos) << message;
    EXPECT_NE(message.find("expected"), std::string::npos) << message;
  }
}

TEST_P(OpConformance, RunsInPlaceWhereItSaysSo) {
  if (!def().has(kInPlaceOk)) return;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    const auto inputs = make_inputs(c(), contains(def().dtypes, dtype) ? dtype : DType::kF32);
    const TensorType out = out_types(inputs)[0];
    if (out.dtype != inputs[0].dtype() || out.num_bytes() != inputs[0].type().num_bytes()) return;
    const Tensor expected = (*run_op(def(), inputs, c().attrs))[0];
    const auto own = fresh(inputs);
    std::vector<Tensor> outputs{Tensor(own[0].buffer(), out)};
    const auto others = out_types(inputs);
    for (std::size_t i = 1; i < others.size(); ++i)
      outputs.push_back(*Tensor::allocate(cpu_device(), others[i]));
    const Attrs complete = attrs();
    KernelArgs args{own, outputs, complete, {}, serial()};
    def().reference(args);
    expect_same_bits(outputs[0], expected, "in place");
  }
}

TEST_P(OpConformance, RejectsWrongCalls) {
  auto in = types_of(make_inputs(c(), DType::kF32));
  if (def().num_inputs >= 0) {
    in.push_back({DType::kF32, {}});
    const Status extra = infer_types(def(), in, attrs()).status();
    EXPECT_EQ(extra.message(), fmt::format("[op {}] wrong number of inputs: got {}, expected {}", def().name,
                                           in.size(), in.size() - 1));
  } else {
    EXPECT_EQ(infer_types(def(), {}, attrs()).status().code(), Code::kInvalid) << "no inputs";
  }
  Attrs unknown = c().attrs;
  unknown.set("no_such_attribute", true);
  EXPECT_NE(complete_attrs(def(), unknown).status().message().find("got 'no_such_attribute'"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Ops, OpConformance, all_cases(), name_of_case);

}  // namespace
}  // namespace trireme::op::testing
