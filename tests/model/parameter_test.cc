#include "trireme/model/parameter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "trireme/base/hash.h"

namespace trireme::model {
namespace {

std::vector<float> initial(const Parameter& p, std::uint64_t seed = 1) {
  std::vector<float> values(static_cast<std::size_t>(p.type.shape.num_elems()), 99.0F);
  initialise(p, seed, values);
  return values;
}
Parameter parameter(const Shape& shape, const char* init, Fans fans = {}) {
  const Init start = *find_init(init, fans);
  return {"layer/weight", {DType::kF32, shape}, start.bound, start.kind};
}

TEST(Init, PartsAreThoseOfTheWhole) {
  for (const char* name : {"he", "normal(0.3)", "constant(2)", "uniform(0)"}) {
    const Parameter p = parameter({1001}, name, {50, 150});
    const std::vector<float> whole = initial(p);
    std::vector<float> parts(whole.size());
    for (std::size_t first = 0; first < parts.size(); first += 37)
      initialise_part(p, 1, first,
                      std::span(parts).subspan(first, std::min<std::size_t>(37, parts.size() - first)));
    EXPECT_EQ(parts, whole) << name;
  }
}

TEST(Init, RulesHaveTheVarianceOfTheirPaper) {
  const Fans fans{50, 150};
  const std::pair<const char*, double> variances[] = {
      {"he", 2.0 / 50},      {"he-normal", 2.0 / 50},    {"xavier", 2.0 / 200}, {"xavier-normal", 2.0 / 200},
      {"lecun", 1.0 / 50},   {"lecun-normal", 1.0 / 50}, {"torch", 1.0 / 150},  {"normal(0.3)", 0.09},
      {"uniform(0.6)", 0.12}};
  for (const auto& [name, variance] : variances) {
    double sum = 0, squares = 0;
    const auto values = initial(parameter({40000}, name, fans));
    for (const float v : values) {
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    EXPECT_NEAR(sum / 40000, 0, 5 * std::sqrt(variance / 40000)) << name;
    EXPECT_NEAR(squares / 40000, variance, 0.03 * variance) << name;
  }
}

TEST(Init, NormalValuesHaveTheRightTails) {
  int beyond_one = 0, beyond_two = 0;
  for (const float v : initial(parameter({40000}, "normal(1)"))) {
    beyond_one += std::abs(v) > 1 ? 1 : 0;
    beyond_two += std::abs(v) > 2 ? 1 : 0;
  }
  EXPECT_NEAR(beyond_one / 40000.0, 0.3173, 0.012);
  EXPECT_NEAR(beyond_two / 40000.0, 0.0455, 0.005);
}

TEST(Init, ConstantsAreConstant) {
  EXPECT_EQ(initial(parameter({3}, "zeros")), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(initial(parameter({3}, "ones")), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(initial(parameter({2}, "constant(-0.5)")), (std::vector<float>{-0.5F, -0.5F}));
}

TEST(Init, OrthogonalMatricesHaveOrthonormalRowsOrColumns) {
  for (const Shape& shape : {Shape{6, 6}, Shape{4, 9}, Shape{9, 4}, Shape{5, 2, 3, 3}, Shape{1, 7}}) {
    const auto w = initial(parameter(shape, "orthogonal"));
    const auto rows = static_cast<std::size_t>(shape[0]), columns = w.size() / rows;
    const bool by_rows = rows <= columns;
    const std::size_t vectors = by_rows ? rows : columns, length = by_rows ? columns : rows;
    const auto at = [&](std::size_t v, std::size_t i) {
      return by_rows ? w[v * columns + i] : w[i * columns + v];
    };
    for (std::size_t a = 0; a < vectors; ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        double dot = 0;
        for (std::size_t i = 0; i < length; ++i) dot += static_cast<double>(at(a, i)) * at(b, i);
        EXPECT_NEAR(dot, a == b ? 1 : 0, 1e-6) << shape.to_string();
      }
    }
    EXPECT_EQ(w, initial(parameter(shape, "orthogonal")));
    EXPECT_NE(w, initial(parameter(shape, "orthogonal"), 2));
  }
}

TEST(Init, ANormalElementDependsOnItsIndexOnly) {
  const auto few = initial(parameter({10}, "normal(1)"));
  auto many = initial(parameter({1000}, "normal(1)"));
  many.resize(10);
  EXPECT_EQ(few, many);
}

TEST(Init, BadNamesAreRefusedWithTheNamesThatExist) {
  for (const char* text : {"", "kaiming", "he(2)", "normal", "normal(", "normal()", "normal(x)", "normal(1)x",
                           "normal(nan)", "normal(-1)", "(1)"}) {
    const Status status = find_init(text, {}).status();
    EXPECT_EQ(status.code(), Code::kInvalid) << text;
    EXPECT_NE(status.message().find("expected one of: he, "), std::string::npos) << status.message();
  }
  std::set<std::string> names;
  for (const InitRow& row : init_table()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

// Checkpoints and golden runs of earlier versions rely on these bits.
TEST(Init, UniformValuesKeepTheirBits) {
  const auto values = initial({"conv1/weight", {DType::kF32, {1000}}, std::sqrt(6.0 / 25)}, 1);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  EXPECT_EQ(sha256_hex({bytes, values.size() * sizeof(float)}),
            "8f9656e40ac96a672277b40d6cdf108ce62ccc14dc07490f6b12fb8d7e0da66b");
}

}  // namespace
}  // namespace trireme::model
