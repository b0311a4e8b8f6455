// Convolutions.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

namespace {
Attrs conv(std::int64_t stride, std::int64_t pad, std::int64_t dilation, std::int64_t groups,
           std::int64_t output_pad = -1) {
  Attrs a{{"stride_h", stride},       {"stride_w", std::int64_t{1}}, {"pad_h", pad},
          {"pad_w", std::int64_t{1}}, {"dilation_h", dilation},      {"dilation_w", std::int64_t{1}},
          {"groups", groups}};
  if (output_pad >= 0) a.set("output_pad_h", output_pad);
  return a;
}

// Another geometry per side, and sizes that neither 2 nor 3 divide.
struct Uneven {
  std::string note;
  Ints x, filter;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilation_h = 1, groups = 1;

  Attrs attrs() const {
    return {{"stride_h", stride_h}, {"stride_w", stride_w},     {"pad_h", pad_h},
            {"pad_w", pad_w},       {"dilation_h", dilation_h}, {"groups", groups}};
  }
  Shape y() const {
    const auto size = [](std::int64_t in, std::int64_t k, std::int64_t stride, std::int64_t pad,
                         std::int64_t dilation) {
      return (in + 2 * pad - (k - 1) * dilation - 1) / stride + 1;
    };
    return {x[0], filter[0], size(x[2], filter[2], stride_h, pad_h, dilation_h),
            size(x[3], filter[3], stride_w, pad_w, 1)};
  }
};
const std::vector<Uneven>& uneven() {
  static const std::vector<Uneven> all{
      {"uneven strides", {1, 2, 11, 7}, {3, 2, 3, 3}, 3, 2, 2, 1, 2},
      {"uneven with gaps", {1, 1, 13, 9}, {2, 1, 2, 2}, 4, 4, 1, 0},
      {"uneven long filter", {1, 1, 7, 5}, {1, 1, 5, 5}, 1, 1, 2, 2},
      {"uneven in three groups", {1, 6, 5, 4}, {9, 2, 3, 2}, 1, 1, 1, 0, 1, 3},
      {"uneven by channel", {1, 5, 4, 3}, {5, 1, 3, 3}, 2, 1, 1, 1, 1, 5}};
  return all;
}

void add_uneven(std::vector<OpCase>& t) {
  for (const Uneven& u : uneven()) {
    const Shape x(u.x), filter(u.filter);
    Attrs input = u.attrs(), own = u.attrs();
    input.set("input_shape", u.x);
    own.set("filter_shape", u.filter);
    t.push_back({&kConv2d, u.note, {{kReal, x}, {kReal, filter}}, u.attrs()});
    t.push_back({&kConv2dInputGrad, u.note, {{kReal, filter}, {kReal, u.y()}}, input});
    t.push_back({&kConv2dFilterGrad, u.note, {{kReal, x}, {kReal, u.y()}}, own});
  }
}

void add_conv2d(std::vector<OpCase>& t) {
  const Ints x{2, 4, 5, 4}, f{6, 4, 3, 2}, fg{6, 2, 3, 2};
  const auto shape = [](const Ints& s) { return Shape(s); };
  t.push_back({&kConv2d, "plain", {{kReal, shape(x)}, {kReal, shape(f)}}});
  t.push_back({&kConv2d, "by im2col", {{kReal, shape(x)}, {kReal, shape(f)}}, one("method", "im2col")});
  t.push_back(
      {&kConv2d, "by winograd", {{kReal, shape(x)}, {kReal, {6, 4, 3, 3}}}, one("method", "winograd")});
  t.push_back({&kConv2d,
               "5x5 by winograd",
               {{kReal, {2, 4, 6, 5}}, {kReal, {6, 4, 5, 5}}},
               one("method", "winograd")});
  t.push_back({&kConv2d, "strided padded", {{kReal, shape(x)}, {kReal, shape(f)}}, conv(2, 1, 1, 1)});
  t.push_back({&kConv2d, "dilated groups", {{kReal, shape(x)}, {kReal, shape(fg)}}, conv(1, 1, 2, 2)});
  t.push_back({&kConv2d, "one pixel", {{kReal, {1, 1, 1, 1}}, {kReal, {1, 1, 1, 1}}}});
  const Attrs wide_pad = conv(1, 3, 1, 1);
  t.push_back(
      {&kConv2d, "more padding than image", {{kReal, {1, 1, 1, 2}}, {kReal, {1, 1, 1, 1}}}, wide_pad});
  t.push_back({&kConv2d, "no samples", {{kReal, {0, 4, 5, 4}}, {kReal, shape(f)}}});
  t.push_back({&kConv2d, "no channels", {{kReal, {2, 0, 5, 4}}, {kReal, {3, 0, 3, 2}}}});
}

void add_conv2d_grads(std::vector<OpCase>& t) {
  const Ints x{2, 4, 5, 4}, f{6, 4, 3, 2}, fg{6, 2, 3, 2};
  const auto shape = [](const Ints& s) { return Shape(s); };
  const auto add = [&](const std::string& note, const Shape& y, const Ints& filter, const Attrs& attrs,
                       const Ints& image) {
    Attrs input = attrs, own = attrs;
    input.set("input_shape", image);
    own.set("filter_shape", filter);
    t.push_back({&kConv2dInputGrad, note, {{kReal, shape(filter)}, {kReal, y}}, input});
    t.push_back({&kConv2dFilterGrad, note, {{kReal, shape(image)}, {kReal, y}}, own});
  };
  add("plain", {2, 6, 3, 3}, f, {}, x);
  add("by im2col", {2, 6, 3, 3}, f, one("method", "im2col"), x);
  add("by winograd", {2, 6, 3, 2}, {6, 4, 3, 3}, one("method", "winograd"), x);
  add("5x5 by winograd", {2, 6, 2, 1}, {6, 4, 5, 5}, one("method", "winograd"), {2, 4, 6, 5});
  add("strided padded", {2, 6, 3, 5}, f, conv(2, 1, 1, 1), x);
  add("dilated groups", {2, 6, 3, 5}, fg, conv(1, 1, 2, 2), x);
  add("more padding than image", {1, 1, 7, 4}, {1, 1, 1, 1}, conv(1, 3, 1, 1), {1, 1, 1, 2});
  add("no samples", {0, 6, 3, 3}, f, {}, {0, 4, 5, 4});
}

void add_transposes(std::vector<OpCase>& t) {
  const Shape x{2, 4, 3, 2}, f{4, 3, 3, 2};
  t.push_back({&kConv2dTranspose, "plain", {{kReal, x}, {kReal, f}}});
  t.push_back({&kConv2dTranspose, "strided padded", {{kReal, x}, {kReal, f}}, conv(3, 1, 1, 1, 2)});
  t.push_back({&kConv2dTranspose, "dilated groups", {{kReal, x}, {kReal, f}}, conv(2, 1, 2, 2, 1)});
  Attrs uneven = conv(3, 1, 1, 1, 2);
  uneven.set("stride_w", std::int64_t{2});
  t.push_back({&kConv2dTranspose, "uneven", {{kReal, {1, 2, 4, 5}}, {kReal, {2, 1, 3, 2}}}, uneven});
  t.push_back({&kConv2dTranspose, "one pixel", {{kReal, {1, 1, 1, 1}}, {kReal, {1, 1, 1, 1}}}});
  t.push_back({&kConv2dTranspose, "no samples", {{kReal, {0, 4, 3, 2}}, {kReal, f}}});
}

void add_local(std::vector<OpCase>& t) {
  const auto add = [&](const std::string& note, const Ints& x, const Shape& y, const Ints& taps,
                       const Attrs& attrs) {
    const Ints f{y[2], y[3], y[1], taps[0], taps[1], taps[2]};
    Attrs input = attrs, own = attrs;
    input.set("input_shape", x);
    own.set("filter_shape", f);
    t.push_back({&kLocallyConnected2d, note, {{kReal, Shape(x)}, {kReal, Shape(f)}}, attrs});
    t.push_back({&kLocallyConnected2dInputGrad, note, {{kReal, Shape(f)}, {kReal, y}}, input});
    t.push_back({&kLocallyConnected2dFilterGrad, note, {{kReal, Shape(x)}, {kReal, y}}, own});
  };
  add("plain", {2, 2, 4, 3}, {2, 3, 3, 2}, {2, 2, 2}, {});
  add("strided padded", {2, 2, 4, 2}, {2, 3, 2, 3}, {2, 3, 2}, conv(2, 1, 1, 1));
  add("dilated groups", {1, 4, 4, 2}, {1, 2, 2, 3}, {2, 3, 2}, conv(1, 1, 2, 2));
  add("uneven", {1, 1, 9, 5}, {1, 2, 5, 5}, {1, 3, 3}, conv(2, 1, 1, 1));
  add("uneven long filter", {1, 1, 7, 3}, {1, 1, 7, 4}, {1, 5, 2}, conv(1, 2, 1, 1));
  add("no samples", {0, 2, 4, 3}, {0, 3, 3, 2}, {2, 2, 2}, {});
}
}  // namespace

void add_conv(std::vector<OpCase>& t) {
  add_conv2d(t);
  add_conv2d_grads(t);
  add_uneven(t);
  add_transposes(t);
  add_local(t);
}

}  // namespace trireme::op::testing
