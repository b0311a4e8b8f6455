// Reference kernels and gradients against outputs and gradients recorded from PyTorch and NumPy in f64
// (recorded/<family>.json, made by tests/op_records/record.py).
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/conformance/harness.h"
#include "tests/op_records/records.h"

namespace trireme::op::testing {
namespace {

std::filesystem::path folder() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  return std::filesystem::path(root ? root : ".") / "tests/op_records/recorded";
}

Json parse_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  auto json = Json::parse(text.str(), nullptr, false);
  TR_CHECK(!json.is_discarded(), "{} is no JSON", path.string());
  return json;
}

const std::map<std::string, Json>& records() {
  static const std::map<std::string, Json> all = [] {
    std::map<std::string, Json> map;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      if (entry.path().extension() != ".json") continue;
      const Json file = parse_file(entry.path());
      for (const auto& [name, record] : file["cases"].items()) map[name] = record;
    }
    return map;
  }();
  return all;
}

void expect_record(const Tensor& got, const Json& record, const std::string& what) {
  const std::vector<std::int64_t> dims(got.shape().dims().begin(), got.shape().dims().end());
  ASSERT_EQ(record["shape"].get<std::vector<std::int64_t>>(), dims) << what;
  const auto values = to_doubles(got);
  const auto first = record["first"].get<std::vector<double>>();
  expect_close({values.begin(), values.begin() + static_cast<std::ptrdiff_t>(first.size())}, first, 1e-9,
               what);
  EXPECT_NEAR(folded(values), record["folded"].get<double>(),
              1e-8 * std::max(1.0, std::abs(folded(values))) + 1e-9 * static_cast<double>(values.size()))
      << what;
}

class OpRecords : public OpConformance {
 protected:
  const Json* record() const {
    const auto it = records().find(case_name(c()));
    return it == records().end() ? nullptr : &it->second;
  }
};

TEST_P(OpRecords, OutputsAreThoseOfTheOtherImplementation) {
  if (!is_recordable(c()) || record() == nullptr) return;
  ASSERT_EQ((*record())["key"], input_key(c())) << "the case changed: run tests/op_records/record.py";
  const auto got = written(make_inputs(c(), DType::kF64));
  const Json& expected = (*record())["outputs"];
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    if (!expected[k].is_null()) expect_record(got[k], expected[k], fmt::format("output {}", k));
  }
}

TEST_P(OpRecords, GradientsAreThoseOfTheOtherImplementation) {
  if (!is_recordable(c()) || record() == nullptr || def().grad == nullptr || !record()->contains("grads"))
    return;
  MiniGraph graph;
  std::vector<Value> inputs;
  for (const Tensor& t : make_inputs(c(), DType::kF64)) inputs.push_back(graph.constant(t));
  const Value y = *graph.add(def(), inputs, c().attrs);
  std::vector<Value> grad_outputs;
  for (int k = 0; k < graph.num_outputs(y.node); ++k) {
    const TensorType type = graph.type({y.node, k});
    const bool floating = is_floating(type.dtype) && type.dtype == DType::kF64;
    grad_outputs.push_back(floating ? graph.constant(output_weights(type, static_cast<std::size_t>(k)))
                                    : Value{});
  }
  const auto grads = graph.grad(y.node, grad_outputs);
  ASSERT_TRUE(grads.ok()) << grads.status().to_string();
  const Json& expected = (*record())["grads"];
  ASSERT_EQ(expected.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (expected[i].is_null()) continue;
    const std::string what = fmt::format("gradient for input {}", i);
    if ((*grads)[i].is_null()) {
      EXPECT_EQ(expected[i]["folded"].get<double>(), 0) << what;
    } else {
      expect_record(graph.value((*grads)[i]), expected[i], what);
    }
  }
}

TEST(OpRecordTable, EveryOpIsRecordedOrSaysWhyNot) {
  std::set<std::string> recorded;
  for (const OpCase& c : op_cases()) {
    if (records().contains(case_name(c))) recorded.insert(std::string(c.def->name));
  }
  const Json without = parse_file(folder() / "without.json")["ops"];
  for (const OpDef* def : op_table()) {
    if (def->reference == nullptr) continue;
    const std::string name(def->name);
    EXPECT_NE(recorded.contains(name), without.contains(name))
        << name << ": run tests/op_records/record.py, or say in recorded/without.json why there is no record";
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpRecords, all_cases(), name_of_case);

}  // namespace
}  // namespace trireme::op::testing
