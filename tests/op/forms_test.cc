// Forms of operands: their text, and what they make of types, values, costs and layouts.
#include "trireme/op/forms.h"

#include "tests/op/values.h"

namespace trireme::op::testing {
namespace {

constexpr int kToLast[] = {0, 2, 3, 1};

Tensor contiguous(const Tensor& t) { return as(t.dtype(), t); }
Tensor last(const Tensor& t) { return contiguous(t.transpose(kToLast)); }

Tensor counted(const Shape& shape, double step) {
  Doubles v(static_cast<std::size_t>(shape.num_elems()));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::fmod(static_cast<double>(i) * step, 1.9) - 0.9;
  return f64(v, shape);
}

void expect_same(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.type(), want.type());
  EXPECT_EQ(std::memcmp(got.raw(), want.raw(), want.type().num_bytes()), 0);
}

std::string refusal(const OpDef& def, const std::vector<TensorType>& in, const Attrs& attrs,
                    std::string_view forms) {
  return infer_types(def, in, *complete_attrs(def, attrs), *parse_forms(forms)).status().message();
}

TEST(Forms, TextSaysEveryOperand) {
  for (const char* text : {"", "f32,f32>-", "nhwc,nhwc>nhwc", "f32/nhwc>bf16/nhwc", "-,bf16>-", ">f16"}) {
    const Result<Forms> forms = parse_forms(text);
    ASSERT_TRUE(forms.ok()) << forms.status().to_string();
    EXPECT_EQ(to_text(*forms), text);
  }
  const Forms both = *parse_forms("f32/nhwc,->bf16");
  EXPECT_EQ(both.inputs[0], (Form{.dtype = DType::kF32, .order = Order::kChannelsLast}));
  EXPECT_TRUE(both.inputs[1].is_plain());
  EXPECT_EQ(both.outputs[0], Form{.dtype = DType::kBF16});
  EXPECT_EQ(formed_name(kConv2d, *parse_forms("nhwc,nhwc>nhwc")), "conv2d[nhwc,nhwc>nhwc]");
  EXPECT_EQ(formed_name(kConv2d, {}), "conv2d");
  EXPECT_EQ(to_text(forms_of(2, 1)), "");
}

TEST(Forms, TextThatIsNoneIsRefused) {
  for (const char* text :
       {"f32", "f32,>-", "f33>-", "/nhwc>-", "f32/>-", "nhwc/f32>-", "f32>->-", "f32/nchw>-", "!"})
    EXPECT_EQ(parse_forms(text).status().code(), Code::kInvalid) << text;
}

TEST(Forms, TypesAreThoseInMemory) {
  const std::vector<TensorType> images{{DType::kBF16, {2, 5, 4, 3}}, {DType::kBF16, {6, 3, 3, 3}}};
  const Attrs attrs = *complete_attrs(kConv2d, {{"pad_h", 1}});
  const Forms forms = *parse_forms("f32/nhwc,f32/nhwc>bf16/nhwc");
  const std::vector<TensorType> made = *infer_types(kConv2d, images, attrs, forms);
  EXPECT_EQ(made[0].to_string(), "bf16[2, 5, 2, 6]");
  const KernelQuery node{kConv2d, images, made, attrs, 1, forms};
  const OpTypes own = types_within(node);
  EXPECT_EQ(own.inputs[0].to_string(), "f32[2, 3, 5, 4]");
  EXPECT_EQ(own.inputs[1].to_string(), "f32[6, 3, 3, 3]");
  EXPECT_EQ(own.outputs[0].to_string(), "f32[2, 6, 5, 2]");
  const MemoryTypes memory(node);
  EXPECT_EQ(memory.inputs[0].to_string(), "bf16[2, 3, 5, 4]");
  EXPECT_EQ(memory.outputs[0].to_string(), "bf16[2, 6, 5, 2]");
  EXPECT_TRUE(memory.channels_last && !memory.mixed);
  const Forms some = *parse_forms("nhwc,->-");
  const MemoryTypes mixed({kConv2d, images, made, attrs, 1, some});
  EXPECT_TRUE(mixed.mixed && !mixed.channels_last);
}

TEST(Forms, WhatDoesNotFitIsRefused) {
  const TensorType matrix = f32_type({2, 3});
  EXPECT_EQ(refusal(kRelu, {matrix}, {}, "bf16,->-"), "[op relu] forms: got 2 for the inputs, expected 1");
  EXPECT_EQ(refusal(kRelu, {matrix}, {}, "bf16>"), "[op relu] forms: got 0 for the outputs, expected 1");
  EXPECT_TRUE(
      refusal(kRelu, {matrix}, {}, "nhwc>-").starts_with("[op relu] forms: inputs 0 is f32[2, 3], expected"));
  EXPECT_TRUE(refusal(kRelu, {f32_type({1, 2, 3, 4})}, {}, "nhwc>nhwc").empty());
  EXPECT_TRUE(
      refusal(kAssign, {matrix, matrix}, {}, "bf16,->-").starts_with("[op assign] forms: got 'bf16,->-'"));
  EXPECT_TRUE(refusal(kInput, {}, {{"name", "x"}, {"dtype", DType::kF32}, {"shape", Ints{1}}}, ">bf16")
                  .starts_with("[op input]"));
}

// What the op gives between casts, to the bit.
TEST(Forms, CastsAreThoseAroundTheOp) {
  const Tensor x = as(DType::kBF16, counted({3, 4}, 0.37)), scale = as(DType::kF32, counted({4}, 0.21)),
               bias = as(DType::kF32, counted({4}, 0.73));
  const auto want = *run_op(kLayerNorm, {as(DType::kF32, x), scale, bias}, {});
  const auto got = *run_op(kLayerNorm, {x, scale, bias}, {}, *parse_forms("f32,-,->bf16,-,-"));
  expect_same(got[0], as(DType::kBF16, want[0]));
  expect_same(got[1], want[1]);
  expect_same(got[2], want[2]);
  const Tensor none = as(DType::kBF16, f64({}, {0, 4}));
  EXPECT_EQ((*run_op(kLayerNorm, {none, scale, bias}, {}, *parse_forms("f32,-,->bf16,-,-")))[0].shape(),
            (Shape{0, 4}));
}

TEST(Forms, ChannelsLastAreTheSameNumbersInAnotherOrder) {
  const Tensor x = as(DType::kF32, counted({2, 3, 5, 4}, 0.37)),
               filter = as(DType::kF32, counted({2, 3, 3, 2}, 0.53));
  const Attrs conv{{"pad_h", 1}, {"stride_w", 2}};
  expect_same((*run_op(kConv2d, {last(x), last(filter)}, conv, *parse_forms("nhwc,nhwc>nhwc")))[0],
              last((*run_op(kConv2d, {x, filter}, conv))[0]));
  // One operand may be turned, and another not.
  expect_same((*run_op(kConv2d, {last(x), filter}, conv, *parse_forms("nhwc,->-")))[0],
              (*run_op(kConv2d, {x, filter}, conv))[0]);
  const Attrs pool{{"window_h", 2}, {"window_w", 3}, {"stride_h", 1}, {"stride_w", 2}, {"pad_w", 1}};
  expect_same((*run_op(kAvgPool2d, {last(as(DType::kBF16, x))}, pool, *parse_forms("f32/nhwc>bf16/nhwc")))[0],
              last(as(DType::kBF16, (*run_op(kAvgPool2d, {as(DType::kF32, as(DType::kBF16, x))}, pool))[0])));
}

TEST(Forms, CostsAreTheArithmeticOfTheOpAndTheTrafficInMemory) {
  const std::vector<TensorType> low{{DType::kBF16, {8, 16}}, {DType::kBF16, {16, 4}}},
      wide{f32_type({8, 16}), f32_type({16, 4})}, made{f32_type({8, 4})};
  const Attrs attrs = *complete_attrs(kMatmul, {});
  const Forms forms = *parse_forms("f32,f32>-");
  const cost::OpCost formed = formed_cost({kMatmul, low, made, attrs, 1, forms}),
                     plain = kMatmul.cost(wide, made, attrs);
  EXPECT_EQ(formed.flops, plain.flops);
  EXPECT_EQ(formed.work, plain.work);
  EXPECT_EQ(formed.bytes, plain.bytes - 2 * (8 * 16 + 16 * 4));
}

TEST(Forms, LayoutsAreThoseOfTheOpInItsOwnOrder) {
  const std::vector<TensorType> low{{DType::kBF16, {8, 16}}, {DType::kBF16, {16, 4}}}, made{f32_type({8, 4})};
  const Attrs attrs = *complete_attrs(kMatmul, {});
  const Forms forms = *parse_forms("f32,f32>-");
  const auto formed = formed_layout({kMatmul, low, made, attrs, 1, forms});
  const auto plain = kMatmul.layout(low, attrs);
  ASSERT_EQ(formed.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(formed[i].inputs, plain[i].inputs);
    EXPECT_EQ(formed[i].outputs, plain[i].outputs);
  }
  const std::vector<TensorType> image{f32_type({1, 2, 2, 3})};
  const Attrs none;
  const Forms turned = *parse_forms("nhwc>nhwc");
  EXPECT_TRUE(formed_layout({kRelu, image, image, none, 1, turned}).empty());
}

}  // namespace
}  // namespace trireme::op::testing
