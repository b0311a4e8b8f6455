// Small tables of values: operands from lists, results as lists.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/op/run_op.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {

using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline const double kNan = std::nan("");

inline Tensor f64(const Doubles& v, const Shape& shape) { return Tensor::from<double>(v, shape); }
inline Tensor f64(const Doubles& v) { return f64(v, {static_cast<std::int64_t>(v.size())}); }
inline Tensor i64(const Ints& v, const Shape& shape) { return Tensor::from<std::int64_t>(v, shape); }
inline Tensor i64(const Ints& v) { return i64(v, {static_cast<std::int64_t>(v.size())}); }
inline Tensor bools(const std::vector<int>& v) {
  Tensor t = *Tensor::allocate(cpu_device(), {DType::kBool, {static_cast<std::int64_t>(v.size())}});
  for (std::size_t i = 0; i < v.size(); ++i) t.data<bool>()[i] = v[i] != 0;
  return t;
}
inline Tensor as(DType dtype, const Tensor& t) { return (*run_op(kCast, {t}, {{"dtype", dtype}}))[0]; }

// Output `k` of an op, as elements of type T.
template <typename T = double>
std::vector<T> values(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs = {},
                      std::size_t k = 0) {
  auto out = run_op(def, in, attrs);
  TR_CHECK(out.ok(), "{}", out.status().to_string());
  const auto v = (*out)[k].values<T>();
  return {v.begin(), v.end()};
}
inline std::vector<int> flags(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  std::vector<int> result;
  for (const bool b : values<bool>(def, in, attrs)) result.push_back(b ? 1 : 0);
  return result;
}
inline Shape shape_of(const OpDef& def, const std::vector<Tensor>& in, const Attrs& attrs = {}) {
  return (*run_op(def, in, attrs))[0].shape();
}

inline void expect_near(const Doubles& got, const Doubles& expected, double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
}

// The failure of a call with inputs of these types begins with `message`.
inline void expect_refused(const OpDef& def, const std::vector<TensorType>& in, const Attrs& attrs,
                           const std::string& message) {
  const auto complete = complete_attrs(def, attrs);
  ASSERT_TRUE(complete.ok()) << complete.status().to_string();
  const Status s = infer_types(def, in, *complete).status();
  EXPECT_EQ(s.code(), Code::kInvalid);
  EXPECT_TRUE(s.message().starts_with(message)) << s.message() << "\nexpected to start with\n" << message;
}
inline TensorType f32_type(const Shape& s) { return {DType::kF32, s}; }

}  // namespace trireme::op::testing
