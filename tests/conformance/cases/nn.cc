// Pooling, biases, losses.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

namespace {
Attrs pool(std::int64_t window, std::int64_t stride, std::int64_t pad) {
  return {{"window_h", window}, {"window_w", std::int64_t{2}},
          {"stride_h", stride}, {"stride_w", std::int64_t{2}},
          {"pad_h", pad},       {"pad_w", std::int64_t{0}}};
}
}  // namespace

void add_nn(std::vector<OpCase>& t) {
  t.push_back({&kMaxPool2d, "plain", {{kDistinct, {2, 3, 4, 4}}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2d, "overlapping padded", {{kDistinct, {2, 1, 5, 4}}}, pool(3, 1, 1)});
  t.push_back({&kMaxPool2d, "no samples", {{kDistinct, {0, 3, 4, 4}}}, pool(2, 2, 0)});
  t.push_back({&kMaxPool2dGrad,
               "plain",
               {{kDistinct, {2, 3, 4, 4}}, {kReal, {2, 3, 2, 2}}, {kReal, {2, 3, 2, 2}}},
               pool(2, 2, 0)});
  t.push_back({&kMaxPool2dGrad,
               "overlapping padded",
               {{kDistinct, {2, 1, 5, 4}}, {kReal, {2, 1, 5, 2}}, {kReal, {2, 1, 5, 2}}},
               pool(3, 1, 1)});
  t.push_back({&kBiasAdd, "matrix", {{kReal, {3, 4}}, {kReal, {4}}}});
  t.push_back({&kBiasAdd, "images", {{kReal, {2, 3, 2, 2}}, {kReal, {3}}}});
  t.push_back({&kBiasAdd, "empty", {{kReal, {0, 4}}, {kReal, {4}}}});
  t.push_back({&kBiasGrad, "matrix", {{kReal, {3, 4}}}});
  t.push_back({&kBiasGrad, "images", {{kReal, {2, 3, 2, 2}}}});
  t.push_back({&kBiasGrad, "nothing to add", {{kReal, {0, 4}}}});
  t.push_back({&kSoftmax, "matrix", {{kReal, {3, 4}}}});
  t.push_back({&kSoftmax, "three dims", {{kReal, {2, 2, 5}}}});
  t.push_back({&kSoftmax, "one class", {{kReal, {3, 1}}}});
  t.push_back({&kSoftmax, "no rows", {{kReal, {0, 4}}}});
  for (const Fill labels : {kLabels, kLabels32}) {
    const std::string kind = labels == kLabels ? "i64 labels" : "i32 labels";
    t.push_back({&kSoftmaxCrossEntropy, kind, {{kReal, {5, 4}}, {labels, {5}}, {kWeights, {5}}}});
    t.push_back(
        {&kSoftmaxCrossEntropyGrad, kind, {{kReal, {5, 4}}, {labels, {5}}, {kWeights, {5}}, {kReal, {5}}}});
    t.push_back({&kCorrect, kind, {{kReal, {5, 4}}, {labels, {5}}, {kWeights, {5}}}});
  }
  t.push_back({&kSoftmaxCrossEntropy, "no samples", {{kReal, {0, 4}}, {kLabels, {0}}, {kWeights, {0}}}});
}

}  // namespace trireme::op::testing
