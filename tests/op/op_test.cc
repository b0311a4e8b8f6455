#include "trireme/op/op.h"

#include <gtest/gtest.h>

#include "tests/op/run_op.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
namespace {
using Ints = std::vector<std::int64_t>;

TEST(Attrs, KeepTheirOrderAndReplaceByName) {
  Attrs a{{"x", 1}, {"y", 0.5}};
  a.set("x", 7);
  a.set("z", std::string("t"));
  ASSERT_EQ(a.items().size(), 3U);
  EXPECT_EQ(a.items()[0].first, "x");
  EXPECT_EQ(a.get_int("x"), 7);
  EXPECT_EQ(a.get_float("y"), 0.5);
  EXPECT_EQ(a.get_text("z"), "t");
  EXPECT_EQ(a.find("w"), nullptr);
  EXPECT_DEATH((void)a.get_int("w"), "no attribute 'w'");
  EXPECT_DEATH((void)a.get_int("y"), "'y' is a float");
}

TEST(CompleteAttrs, FillsDefaultsInTheOrderOfTheDeclaration) {
  const auto a = complete_attrs(kConv2d, {{"pad_h", 2}});
  ASSERT_TRUE(a.ok());
  ASSERT_EQ(a->items().size(), 8U);
  EXPECT_EQ(a->items()[0].first, "stride_h");
  EXPECT_EQ(a->get_int("stride_h"), 1);
  EXPECT_EQ(a->get_int("pad_h"), 2);
  EXPECT_EQ(*complete_attrs(kConv2d, *a), *a);
}

TEST(CompleteAttrs, RejectsWithTheNamesThatExist) {
  EXPECT_EQ(complete_attrs(kMatmul, {{"transposed", true}}).status().message(),
            "[op matmul] unknown attribute: got 'transposed', expected one of: transpose_a, transpose_b");
  EXPECT_EQ(complete_attrs(kRelu, {{"slope", 0.1}}).status().message(),
            "[op relu] unknown attribute: got 'slope', expected one of: none");
  EXPECT_EQ(complete_attrs(kScale, {{"factor", 2}}).status().message(),
            "[op scale] attribute 'factor' has the wrong type: got an int, expected a float");
  EXPECT_EQ(complete_attrs(kReshape, {}).status().message(),
            "[op reshape] attribute 'shape' is missing: got none, expected ints (new shape; one size may be "
            "-1: worked out)");
}

TEST(Serial, RunsTheWholeRangeOnceInline) {
  int calls = 0;
  serial().parallel_for(5, [&](std::int64_t b, std::int64_t e, int slice) {
    ++calls;
    EXPECT_EQ(b, 0);
    EXPECT_EQ(e, 5);
    EXPECT_EQ(slice, 0);
  });
  serial().parallel_for(0, [&](auto, auto, auto) { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(serial().width(), 1);
}

struct BadCall {
  const OpDef& def;
  std::vector<TensorType> inputs;
  Attrs attrs;
  std::string message;
};

TEST(Infer, SaysWhatIsWrongAndWhatItExpects) {
  const TensorType image{DType::kF32, {2, 3, 8, 8}}, filter{DType::kF32, {4, 3, 3, 3}};
  const auto f32 = [](Shape s) { return TensorType{DType::kF32, s}; };
  const Attrs window{{"window_h", 2}, {"window_w", 2}, {"stride_h", 2}, {"stride_w", 2}};
  Attrs wide = window;
  wide.set("pad_h", 2);
  const std::vector<BadCall> calls{
      {kAdd, {f32({2}), {DType::kF64, {2}}}, {}, "[op add] b: got f64[2], expected f32"},
      {kAdd, {f32({2}), f32({3})}, {}, "[op add] a and b: [shape] shapes do not broadcast: got [2] and [3]"},
      {kMatmul, {f32({2, 3}), f32({2, 3})}, {}, "[op matmul] inner dimensions: got f32[2, 3] and f32[2, 3]"},
      {kMatmul,
       {f32({3}), f32({3, 4})},
       {},
       "[op matmul] a: got f32[3], expected a matrix (2 dimensions) or a batch"},
      {kConv2d, {image, f32({4, 2, 3, 3})}, {}, "[op conv2d] channels: got 3 in x"},
      {kConv2d,
       {image, f32({4, 3, 9, 3})},
       {},
       "[op conv2d] filter height: got 9 taps with dilation 1, expected to fit into 8"},
      {kConv2d,
       {image, filter},
       {{"stride_h", 0}},
       "[op conv2d] attribute 'stride_h': got 0, expected at least 1"},
      {kConv2d, {f32({3, 8, 8}), filter}, {}, "[op conv2d] x: got f32[3, 8, 8], expected 4 dimensions"},
      {kConv2dInputGrad,
       {filter, image},
       {{"input_shape", Ints{2, 3, 8, 8}}},
       "[op conv2d_input_grad] dy: got f32[2, 3, 8, 8], expected f32[2, 4, 6, 6]"},
      {kMaxPool2d,
       {f32({1, 1, 1, 8})},
       window,
       "[op max_pool2d] height: got a window of 2, expected to fit into 1"},
      {kMaxPool2d,
       {image},
       wide,
       "[op max_pool2d] height: got padding 2 for a window of 2, expected at most half"},
      {kBiasAdd, {f32({2, 3}), f32({2})}, {}, "[op bias_add] b: got f32[2], expected f32[3]"},
      {kReshape,
       {f32({2, 3})},
       {{"shape", Ints{4, -1}}},
       "[op reshape] attribute 'shape': got [4, -1] for [2, 3]"},
      {kReshape, {f32({2, 3})}, {{"shape", Ints{-1, -1}}}, "[op reshape] attribute 'shape'"},
      {kReshape,
       {f32({2, 3})},
       {{"shape", Ints{5}}},
       "[op reshape] attribute 'shape': got [5] for [2, 3], expected 6 elements"},
      {kTranspose,
       {f32({2, 3})},
       {{"order", Ints{0, 0}}},
       "[op transpose] attribute 'order': got [0, 0] for f32[2, 3]"},
      {kSum, {f32({2, 3})}, {{"axes", Ints{2}}}, "[op sum] attribute 'axes': got [2] for f32[2, 3]"},
      {kMax, {f32({0, 3})}, {}, "[op max] x: got f32[0, 3], expected at least one element"},
      {kSoftmaxCrossEntropy,
       {f32({2, 3}), f32({2}), f32({2})},
       {},
       "[op softmax_cross_entropy] labels: got f32[2], expected i64 or i32"},
      {kDropout,
       {f32({2}), {DType::kI64, {}}, {DType::kI64, {}}, {DType::kI64, {2}}},
       {{"rate", 1.0}, {"stream", 0}},
       "[op dropout] attribute 'rate': got 1, expected a value in [0, 1)"},
      {kApplySgd, {f32({2}), f32({2}), f32({1})}, {}, "[op apply_sgd] lr: got f32[1], expected f32[]"},
      {kReduceScatter,
       {f32({5})},
       {{"world", 2}},
       "[op reduce_scatter] x: got f32[5], expected dimension 0 to be a multiple of 2"},
      {kFill, {}, {{"shape", Ints{-2}}}, "[op fill] attribute 'shape': [shape] negative dimension: got -2"},
      {kInput,
       {},
       {{"name", std::string()}, {"shape", Ints{}}},
       "[op input] attribute 'name': got an empty text"},
  };
  for (const BadCall& call : calls) {
    const auto attrs = complete_attrs(call.def, call.attrs);
    ASSERT_TRUE(attrs.ok()) << attrs.status().to_string();
    const Status s = infer_types(call.def, call.inputs, *attrs).status();
    EXPECT_EQ(s.code(), Code::kInvalid);
    EXPECT_TRUE(s.message().starts_with(call.message)) << s.message() << "\nexpected to start with\n"
                                                       << call.message;
  }
}

}  // namespace
}  // namespace trireme::op::testing
