// What the conformance suites share: one parameterised test per case, comparisons.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/conformance/mini_graph.h"
#include "tests/conformance/op_cases.h"

namespace trireme::op::testing {

inline std::vector<TensorType> types_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorType> types;
  for (const Tensor& t : tensors) types.push_back(t.type());
  return types;
}

inline std::vector<Tensor> fresh(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& t : tensors) {
    copies.push_back(*Tensor::allocate(cpu_device(), t.type()));
    copy_to_contiguous(t, copies.back());
  }
  return copies;
}

inline void expect_same_bits(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.type(), expected.type()) << what;
  const Tensor a = fresh({got})[0], b = fresh({expected})[0];
  if (a.shape().num_elems() == 0) return;
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.type().num_bytes()), 0) << what;
}

inline void expect_close(const std::vector<double>& got, const std::vector<double>& expected,
                         double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i])))
        << what << ", element " << i;
  }
}

class OpConformance : public ::testing::TestWithParam<int> {
 protected:
  const OpCase& c() const { return op_cases()[static_cast<std::size_t>(GetParam())]; }
  const OpDef& def() const { return *c().def; }
  Attrs attrs() const { return *complete_attrs(def(), c().attrs); }
  std::vector<TensorType> out_types(const std::vector<Tensor>& in) const {
    return *infer_types(def(), types_of(in), attrs());
  }
  // After a run: what the op wrote, outputs and mutated inputs.
  std::vector<Tensor> written(const std::vector<Tensor>& in) const {
    std::vector<Tensor> all = *run_op(def(), in, attrs());
    for (const int i : def().mutated_inputs) all.push_back(in[static_cast<std::size_t>(i)]);
    return all;
  }
};

// The name of a case as a test parameter.
inline std::string name_of_case(const ::testing::TestParamInfo<int>& info) {
  return case_name(op_cases()[static_cast<std::size_t>(info.param)]);
}
inline auto all_cases() { return ::testing::Range(0, static_cast<int>(op_cases().size())); }

}  // namespace trireme::op::testing
