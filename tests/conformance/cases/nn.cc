// Pooling, biases, losses.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/fused/batch_norm_relu.h"
#include "trireme/op/fused/max_pool2d_places.h"
#include "trireme/op/nn/layer_norm_grad_sum.h"
#include "trireme/op/nn/residual_layer_norm.h"
#include "trireme/op/nn/softmax_cross_entropy_step.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

namespace {
Attrs pool(std::int64_t window, std::int64_t stride, std::int64_t pad) {
  return {{"window_h", window}, {"window_w", std::int64_t{2}},
          {"stride_h", stride}, {"stride_w", std::int64_t{2}},
          {"pad_h", pad},       {"pad_w", std::int64_t{0}}};
}

void add_pools(std::vector<OpCase>& t) {
  t.push_back({&kMaxPool2d, "plain", {{kDistinct, {2, 3, 4, 4}}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2d, "overlapping padded", {{kDistinct, {2, 1, 5, 4}}}, pool(3, 1, 1)});
  const Shape odd{1, 2, 11, 7}, odd_y{1, 2, 6, 3}, long_x{1, 1, 16, 7}, long_y{1, 1, 4, 3};
  t.push_back({&kMaxPool2d, "uneven", {{kDistinct, odd}}, pool(3, 2, 1)});
  t.push_back({&kMaxPool2d, "uneven with gaps", {{kDistinct, long_x}}, pool(2, 4, 0)});
  t.push_back({&kMaxPool2dGrad, "uneven", {{kDistinct, odd}, {kReal, odd_y}, {kReal, odd_y}}, pool(3, 2, 1)});
  t.push_back({&kMaxPool2dGrad,
               "uneven with gaps",
               {{kDistinct, long_x}, {kReal, long_y}, {kReal, long_y}},
               pool(2, 4, 0)});
  t.push_back(
      {&kMaxPool2dGradGrad, "uneven", {{kDistinct, odd}, {kReal, odd_y}, {kReal, odd}}, pool(3, 2, 1)});
  t.push_back({&kMaxPool2d, "no samples", {{kDistinct, {0, 3, 4, 4}}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2d, "one pixel", {{kDistinct, {1, 1, 1, 2}}}, pool(1, 1, 0)});
  const Shape x{2, 3, 4, 4}, y{2, 3, 2, 2}, wide{2, 1, 5, 4}, wide_y{2, 1, 5, 2}, none{0, 3, 4, 4},
      none_y{0, 3, 2, 2};
  t.push_back({&kMaxPool2dGrad, "plain", {{kDistinct, x}, {kReal, y}, {kReal, y}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2dGrad,
               "overlapping padded",
               {{kDistinct, wide}, {kReal, wide_y}, {kReal, wide_y}},
               pool(3, 1, 1)});
  t.push_back(
      {&kMaxPool2dGrad, "no samples", {{kDistinct, none}, {kReal, none_y}, {kReal, none_y}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2dGradGrad, "plain", {{kDistinct, x}, {kReal, y}, {kReal, x}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2dGradGrad,
               "overlapping padded",
               {{kDistinct, wide}, {kReal, wide_y}, {kReal, wide}},
               pool(3, 1, 1)});
  const auto add_places = [&](const std::string& note, const Shape& in, const Shape& out, Attrs attrs) {
    t.push_back({&kMaxPool2dPlaces, note, {{kDistinct, in}}, attrs});
    attrs.set("input_shape", Ints(in.dims().begin(), in.dims().end()));
    t.push_back({&kMaxPool2dPlacesGrad, note, {{kReal, out}, {kBytes, out}}, attrs, true});
  };
  add_places("plain", x, y, pool(2, 2, 0));
  add_places("overlapping padded", wide, wide_y, pool(3, 1, 1));
  add_places("no samples", none, none_y, pool(2, 2, 0));
}

void add_losses(std::vector<OpCase>& t) {
  for (const Fill labels : {kLabels, kLabels32}) {
    const std::string kind = labels == kLabels ? "i64 labels" : "i32 labels";
    const std::vector<Input> in{{kReal, {5, 4}}, {labels, {5}}, {kWeights, {5}}};
    t.push_back({.def = &kSoftmaxCrossEntropy, .note = kind, .inputs = in, .skips_work = true});
    t.push_back({&kCorrect, kind, in});
    std::vector<Input> with_d = in;
    with_d.push_back({kReal, {5}});
    t.push_back({.def = &kSoftmaxCrossEntropyGrad, .note = kind, .inputs = with_d, .skips_work = true});
    t.push_back({.def = &kSoftmaxCrossEntropyStep, .note = kind, .inputs = with_d, .skips_work = true});
  }
  const std::vector<Input> seven{{kReal, {5, 7}}, {kLabels, {5}}, {kWeights, {5}}};
  std::vector<Input> seven_d = seven;
  seven_d.push_back({kReal, {5}});
  t.push_back({.def = &kSoftmaxCrossEntropy, .note = "seven classes", .inputs = seven, .skips_work = true});
  t.push_back({&kCorrect, "seven classes", seven});
  t.push_back(
      {.def = &kSoftmaxCrossEntropyGrad, .note = "seven classes", .inputs = seven_d, .skips_work = true});
  t.push_back({&kSoftmaxCrossEntropy, "no samples", {{kReal, {0, 4}}, {kLabels, {0}}, {kWeights, {0}}}});
  t.push_back({&kSoftmaxCrossEntropyGrad,
               "no samples",
               {{kReal, {0, 4}}, {kLabels, {0}}, {kWeights, {0}}, {kReal, {0}}}});
  t.push_back({&kSoftmaxCrossEntropyStep,
               "no samples",
               {{kReal, {0, 4}}, {kLabels, {0}}, {kWeights, {0}}, {kReal, {0}}}});
  for (const Shape& s : {Shape{5}, Shape{5, 3}, Shape{4, 2, 3}, Shape{0, 3}}) {
    const std::string note = s.to_string();
    const Shape n{s[0]};
    t.push_back({.def = &kSquaredError,
                 .note = note,
                 .inputs = {{kReal, s}, {kReal, s}, {kWeights, n}},
                 .skips_work = true});
    t.push_back({.def = &kSquaredErrorGrad,
                 .note = note,
                 .inputs = {{kReal, s}, {kReal, s}, {kWeights, n}, {kReal, n}},
                 .skips_work = true});
  }
}

void add_softmaxes(std::vector<OpCase>& t) {
  for (const OpDef* d : {&kSoftmax, &kLogSoftmax}) {
    t.push_back({d, "matrix", {{kReal, {3, 4}}}});
    t.push_back({d, "three dims", {{kReal, {2, 2, 5}}}});
    t.push_back({d, "along the first", {{kReal, {3, 4, 2}}}, one("axis", std::int64_t{0})});
    t.push_back({d, "along the middle", {{kReal, {2, 4, 3}}}, one("axis", std::int64_t{-2})});
    t.push_back({d, "seven classes", {{kReal, {2, 7}}}});
    t.push_back({d, "one class", {{kReal, {3, 1}}}});
    t.push_back({d, "no rows", {{kReal, {0, 4}}}});
    t.push_back({d, "no classes", {{kReal, {3, 0}}}});
  }
}

void add_averages(std::vector<OpCase>& t) {
  const auto with = [](Attrs attrs, std::string name, AttrValue v) {
    attrs.set(std::move(name), std::move(v));
    return attrs;
  };
  const auto add = [&](const std::string& note, const Ints& x, const Shape& y, const Attrs& attrs) {
    t.push_back({&kAvgPool2d, note, {{kReal, Shape(x)}}, attrs});
    t.push_back({&kAvgPool2dGrad, note, {{kReal, y}}, with(attrs, "input_shape", x)});
    if (attrs.find("count_include_pad") == nullptr)
      t.push_back({&kL2Pool2d, note, {{kReal, Shape(x)}}, attrs});
  };
  add("plain", {2, 3, 4, 4}, {2, 3, 2, 2}, pool(2, 2, 0));
  add("overlapping padded", {2, 2, 5, 4}, {2, 2, 5, 2}, pool(3, 1, 1));
  add("without padding", {2, 2, 5, 4}, {2, 2, 5, 2}, with(pool(3, 1, 1), "count_include_pad", false));
  add("one row", {1, 1, 1, 2}, {1, 1, 1, 1}, pool(3, 1, 1));
  add("uneven", {1, 2, 11, 7}, {1, 2, 6, 3}, pool(3, 2, 1));
  add("uneven without padding", {1, 2, 11, 7}, {1, 2, 6, 3}, with(pool(3, 2, 1), "count_include_pad", false));
  add("uneven with gaps", {1, 1, 16, 7}, {1, 1, 4, 3}, pool(2, 4, 0));
  add("gaps between windows", {1, 2, 7, 4}, {1, 2, 2, 2}, pool(2, 4, 0));
  add("no samples", {0, 3, 4, 4}, {0, 3, 2, 2}, pool(2, 2, 0));
}

void add_norms_with_relu(std::vector<OpCase>& t, const Shape& x) {
  constexpr double kSlack = 64;  // every part rounds to 16 bits
  const std::string note = x.to_string();
  const Input image{kReal, x}, vector{kReal, {x[1]}}, positive{kPositive, {x[1]}};
  const Attrs eps = one("eps", 0.125);
  const auto add = [&](const OpDef& def, const std::string& what, std::vector<Input> inputs) {
    t.push_back(
        {.def = &def, .note = note + what, .inputs = std::move(inputs), .attrs = eps, .half_slack = kSlack});
  };
  add(kBatchNormRelu, "", {image, vector, vector});
  add(kBatchNormRelu, " with a residual", {image, vector, vector, image});
  add(kBatchNormReluGrad, "", {image, vector, vector, vector, positive, image});
  add(kBatchNormAddReluGrad, "", {image, vector, vector, positive, image, image});
  add(kBatchNormAddReluGrad, " of two", {image, vector, vector, positive, image, image, image});
}

void add_batch_norms(std::vector<OpCase>& t) {
  for (const Shape& x : {Shape{4, 3}, Shape{2, 3, 2, 2}, Shape{1, 2}, Shape{0, 3, 2}}) {
    const std::string note = x.to_string();
    const Shape c{x[1]};
    const Attrs eps = one("eps", 0.125);
    t.push_back({&kBatchNorm, note, {{kReal, x}, {kReal, c}, {kReal, c}}, eps});
    t.push_back(
        {&kBatchNormGrad, note, {{kReal, x}, {kReal, c}, {kReal, c}, {kPositive, c}, {kReal, x}}, eps});
    t.push_back(
        {&kBatchNormInference, note, {{kReal, x}, {kReal, c}, {kReal, c}, {kReal, c}, {kPositive, c}}, eps});
    add_norms_with_relu(t, x);
  }
  for (const Shape& s : {Shape{3}, Shape{0}}) {
    t.push_back({&kApplyRunningAverage, s.to_string(), {{kReal, s}, {kReal, s}}});
    t.push_back({&kApplyRunningVariance, s.to_string(), {{kReal, s}, {kReal, s}, {kPositive, {}}}});
  }
}

void add_layer_norms(std::vector<OpCase>& t) {
  struct Layer {
    Shape x, groups, params;
    std::int64_t num_axes;
  };
  for (const Layer& v :
       {Layer{{3, 4}, {3}, {4}, 1}, Layer{{2, 3, 4}, {2, 3}, {4}, 1}, Layer{{3, 2, 4}, {3}, {2, 4}, 2},
        Layer{{5}, {}, {5}, 1}, Layer{{0, 3}, {0}, {3}, 1}, Layer{{3, 0}, {3}, {0}, 1}}) {
    const std::string note = v.x.to_string();
    const Attrs attrs{{"num_axes", v.num_axes}, {"eps", 0.125}};
    t.push_back({&kLayerNorm, note, {{kReal, v.x}, {kReal, v.params}, {kReal, v.params}}, attrs});
    t.push_back({&kLayerNormGrad,
                 note,
                 {{kReal, v.x}, {kReal, v.params}, {kReal, v.groups}, {kPositive, v.groups}, {kReal, v.x}},
                 attrs});
    const Input x{kReal, v.x}, param{kReal, v.params};
    t.push_back({.def = &kResidualLayerNorm,
                 .note = note,
                 .inputs = {x, x, param, param, param},
                 .attrs = attrs,
                 .half_slack = 4});  // the sums are rounded before the norm
    Attrs copies = attrs;
    copies.set("copy", DType::kF16);  // bf16 would make the sums of columns jump
    t.push_back({.def = &kLayerNormGradSum,
                 .note = note,
                 .inputs = {{kReal, v.x},
                            {kReal, v.params},
                            {kReal, v.groups},
                            {kPositive, v.groups},
                            {kReal, v.x},
                            {kReal, v.x}},
                 .attrs = copies,
                 .half_slack = 4});  // the gradient, the sum and the copy are rounded
  }
}

void add_local_norms(std::vector<OpCase>& t) {
  const auto window = [](std::int64_t axis, std::int64_t before, std::int64_t after) {
    return Attrs{{"axis", axis}, {"before", before}, {"after", after}};
  };
  t.push_back({&kWindowSum, "along the last", {{kReal, {3, 5}}}, window(-1, 1, 2)});
  t.push_back({&kWindowSum, "along the middle", {{kReal, {2, 4, 3}}}, window(1, 2, 0)});
  t.push_back({&kWindowSum, "wider than the row", {{kReal, {2, 3}}}, window(1, 9, 9)});
  t.push_back({&kWindowSum, "uneven", {{kReal, {2, 7}}}, window(1, 3, 1)});
  t.push_back({&kWindowSum, "no elements", {{kReal, {2, 0}}}, window(1, 1, 1)});
  const Attrs strong{{"size", std::int64_t{3}}, {"alpha", 0.75}, {"beta", 0.6}, {"k", 1.5}};
  Attrs even = strong;
  even.set("size", std::int64_t{4});
  t.push_back({&kLocalResponseNorm, "images", {{kReal, {2, 5, 2, 2}}}, strong});
  t.push_back({&kLocalResponseNorm, "even window", {{kReal, {3, 6}}}, even});
  t.push_back({&kLocalResponseNorm, "uneven", {{kReal, {1, 7, 2}}}, even});
  t.push_back({&kLocalResponseNorm, "one channel", {{kReal, {1, 1, 2}}}, {}});
  t.push_back({&kLocalResponseNorm, "no samples", {{kReal, {0, 3, 2}}}, strong});
  const auto blur = [](std::int64_t size) { return Attrs{{"window", size}, {"sigma", 0.8}}; };
  t.push_back({&kGaussianBlur2d, "plain", {{kReal, {2, 2, 5, 4}}}, blur(3)});
  t.push_back({&kGaussianBlur2d, "larger than the image", {{kReal, {1, 1, 2, 1}}}, blur(7)});
  t.push_back({&kGaussianBlur2d, "uneven", {{kReal, {1, 1, 7, 4}}}, blur(5)});
  t.push_back({&kGaussianBlur2d, "no samples", {{kReal, {0, 2, 3, 3}}}, blur(3)});
  Attrs high = blur(3);
  high.set("threshold", 0.75);
  t.push_back({&kLocalContrastNorm, "plain", {{kReal, {2, 2, 4, 3}}}, blur(3)});
  t.push_back({&kLocalContrastNorm, "partly below the threshold", {{kReal, {1, 2, 4, 4}}}, high});
  t.push_back({&kLocalContrastNorm, "uneven", {{kReal, {1, 5, 7, 4}}}, blur(5)});
  t.push_back({&kLocalContrastNorm, "one pixel", {{kReal, {1, 2, 1, 1}}}, blur(3)});
  t.push_back({&kLocalContrastNorm, "no samples", {{kReal, {0, 2, 4, 3}}}, blur(3)});
}
}  // namespace

void add_nn(std::vector<OpCase>& t) {
  add_pools(t);
  t.push_back({&kBiasAdd, "matrix", {{kReal, {3, 4}}, {kReal, {4}}}});
  t.push_back({&kBiasAdd, "images", {{kReal, {2, 3, 2, 2}}, {kReal, {3}}}});
  t.push_back({&kBiasAdd, "empty", {{kReal, {0, 4}}, {kReal, {4}}}});
  t.push_back({&kBiasGrad, "matrix", {{kReal, {3, 4}}}});
  t.push_back({&kBiasGrad, "images", {{kReal, {2, 3, 2, 2}}}});
  t.push_back({&kBiasGrad, "nothing to add", {{kReal, {0, 4}}}});
  add_softmaxes(t);
  add_losses(t);
  add_averages(t);
  add_batch_norms(t);
  add_layer_norms(t);
  add_local_norms(t);
}

}  // namespace trireme::op::testing
