// Convolutions.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

namespace {
Attrs conv(std::int64_t stride, std::int64_t pad, std::int64_t dilation, std::int64_t groups,
           std::string shape_attr = "", Ints shape = {}) {
  Attrs a{{"stride_h", stride},       {"stride_w", std::int64_t{1}}, {"pad_h", pad},
          {"pad_w", std::int64_t{1}}, {"dilation_h", dilation},      {"dilation_w", std::int64_t{1}},
          {"groups", groups}};
  if (!shape_attr.empty()) a.set(std::move(shape_attr), std::move(shape));
  return a;
}
}  // namespace

void add_conv(std::vector<OpCase>& t) {
  const Ints x{2, 4, 5, 4}, f{6, 4, 3, 2}, fg{6, 2, 3, 2};
  const auto shape = [](const Ints& s) { return Shape(s); };
  t.push_back({&kConv2d, "plain", {{kReal, shape(x)}, {kReal, shape(f)}}});
  t.push_back({&kConv2d, "strided padded", {{kReal, shape(x)}, {kReal, shape(f)}}, conv(2, 1, 1, 1)});
  t.push_back({&kConv2d, "dilated groups", {{kReal, shape(x)}, {kReal, shape(fg)}}, conv(1, 1, 2, 2)});
  t.push_back({&kConv2d, "one pixel", {{kReal, {1, 1, 1, 1}}, {kReal, {1, 1, 1, 1}}}});
  t.push_back({&kConv2d,
               "more padding than image",
               {{kReal, {1, 1, 1, 2}}, {kReal, {1, 1, 1, 1}}},
               conv(1, 3, 1, 1)});
  t.push_back({&kConv2d, "no samples", {{kReal, {0, 4, 5, 4}}, {kReal, shape(f)}}});
  t.push_back(
      {&kConv2dInputGrad, "plain", {{kReal, shape(f)}, {kReal, {2, 6, 3, 3}}}, one("input_shape", x)});
  t.push_back({&kConv2dInputGrad,
               "strided padded",
               {{kReal, shape(f)}, {kReal, {2, 6, 3, 5}}},
               conv(2, 1, 1, 1, "input_shape", x)});
  t.push_back({&kConv2dInputGrad,
               "dilated groups",
               {{kReal, shape(fg)}, {kReal, {2, 6, 3, 5}}},
               conv(1, 1, 2, 2, "input_shape", x)});
  t.push_back(
      {&kConv2dFilterGrad, "plain", {{kReal, shape(x)}, {kReal, {2, 6, 3, 3}}}, one("filter_shape", f)});
  t.push_back({&kConv2dFilterGrad,
               "strided padded",
               {{kReal, shape(x)}, {kReal, {2, 6, 3, 5}}},
               conv(2, 1, 1, 1, "filter_shape", f)});
  t.push_back({&kConv2dFilterGrad,
               "dilated groups",
               {{kReal, shape(x)}, {kReal, {2, 6, 3, 5}}},
               conv(1, 1, 2, 2, "filter_shape", fg)});
  t.push_back({&kConv2dFilterGrad,
               "no samples",
               {{kReal, {0, 4, 5, 4}}, {kReal, {0, 6, 3, 3}}},
               one("filter_shape", f)});
}

}  // namespace trireme::op::testing
