// Cases of formed operands: bf16 for f32, and images with the channels last.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/kernel/cases.h"

namespace trireme::kernel::test {
namespace {

using Ints = std::vector<std::int64_t>;

// The same form for so many operands.
std::string several(int count, std::string_view form) {
  return fmt::format("{}",
                     fmt::join(std::vector<std::string_view>(static_cast<std::size_t>(count), form), ","));
}

op::Attrs with(op::Attrs attrs, const std::string& name, Ints value) {
  attrs.set(name, std::move(value));
  return attrs;
}

struct Conv {
  std::int64_t n, c, h, o, k, stride = 1, pad = 0, groups = 1;
};

void add_conv(std::vector<Case>& out, const Conv& v, DType dtype = DType::kBF16) {
  const op::Attrs attrs{{"stride_h", v.stride},
                        {"stride_w", v.stride},
                        {"pad_h", v.pad},
                        {"pad_w", v.pad},
                        {"groups", v.groups}};
  const std::int64_t c = v.c / v.groups, size = (v.h + 2 * v.pad - v.k) / v.stride + 1;
  const Shape x{v.n, v.h, v.h, v.c}, filter{v.o, v.k, v.k, c}, y{v.n, size, size, v.o};
  const auto add = [&](std::string op, op::Attrs all, const Shape& a, const Shape& b) {
    out.push_back({std::move(op), {a, b}, std::move(all), dtype, {}, "nhwc,nhwc>nhwc"});
  };
  add("conv2d", attrs, x, filter);
  add("conv2d_input_grad", with(attrs, "input_shape", {v.n, v.c, v.h, v.h}), filter, y);
  add("conv2d_filter_grad", with(attrs, "filter_shape", {v.o, c, v.k, v.k}), x, y);
}

void add_norm(std::vector<Case>& out, std::int64_t rows, std::int64_t c, bool low_x, bool low_dy,
              bool low_out) {
  const Shape x{rows, c}, v{c};
  const Special low{.dtype = DType::kBF16}, positive{.positive = true};
  const auto add = [&](std::string op, std::vector<Shape> shapes, int outputs,
                       std::map<int, Special> special) {
    const std::string in = several(static_cast<int>(shapes.size()), "f32"),
                      made = several(outputs, "-").replace(0, 1, low_out ? "bf16" : "-");
    out.push_back({std::move(op), std::move(shapes), {}, DType::kF32, std::move(special), in + ">" + made});
  };
  std::map<int, Special> lows, grads{{3, positive}}, given{{4, positive}}, again{{4, positive}}, bias;
  if (low_x) lows[0] = grads[0] = given[0] = again[0] = bias[0] = low;
  if (low_dy) grads[4] = again[5] = low;
  add("batch_norm", {x, v, v}, 3, lows);
  add("batch_norm_grad", {x, v, v, v, x}, 3, grads);
  add("batch_norm_inference", {x, v, v, v, v}, 1, given);
  add("batch_norm_relu", {x, v, v}, 3, lows);
  add("batch_norm_relu_grad", {x, v, v, v, v, x}, 3, again);
  if (low_dy) lows[3] = low;
  add("batch_norm_relu", {x, v, v, x}, 3, lows);
  add("batch_norm_add_relu_grad", {x, v, v, v, x, x}, 4, grads);
  if (low_dy) grads[5] = low;
  add("batch_norm_add_relu_grad", {x, v, v, v, x, x}, 4, grads);
  if (low_dy) grads[6] = low;
  add("batch_norm_add_relu_grad", {x, v, v, v, x, x, x}, 4, grads);
  if (!low_out) add("bias_grad", {x}, 1, bias);
}

// Plain; shapes of one row, of odd columns, of more columns than are added at a time.
void add_f32_norm(std::vector<Case>& out, std::int64_t rows, std::int64_t c) {
  const Shape x{rows, c}, v{c};
  const Special positive{.positive = true};
  const auto add = [&](std::string op, std::vector<Shape> shapes, std::map<int, Special> special) {
    out.push_back({std::move(op), std::move(shapes), {}, DType::kF32, std::move(special)});
  };
  add("batch_norm", {x, v, v}, {});
  add("batch_norm_relu", {x, v, v}, {});
  add("batch_norm_relu", {x, v, v, x}, {});
  // By the mean and variance of one or two rows the gradient is zero but for rounding: others are given.
  const bool rounding_only = rows <= 2;
  add("batch_norm_grad", {x, v, v, v, x},
      rounding_only ? std::map<int, Special>{{3, positive}} : std::map<int, Special>{});
  add("batch_norm_relu_grad", {x, v, v, v, v, x}, {{4, positive}});
  add("batch_norm_add_relu_grad", {x, v, v, v, x, x}, {{3, positive}});
  add("batch_norm_add_relu_grad", {x, v, v, v, x, x, x}, {{3, positive}});
  add("batch_norm_inference", {x, v, v, v, v}, {{4, positive}});
}

void add_pool(std::vector<Case>& out, const Shape& x, std::int64_t window, std::int64_t stride,
              std::int64_t pad, DType dtype) {
  const op::Attrs attrs{{"window_h", window}, {"window_w", window}, {"stride_h", stride},
                        {"stride_w", stride}, {"pad_h", pad},       {"pad_w", pad}};
  const auto size = [&](std::int64_t in) { return (in + 2 * pad - window) / stride + 1; };
  const Shape y{x[0], size(x[1]), size(x[2]), x[3]};
  out.push_back({"max_pool2d", {x}, attrs, dtype, {}, "nhwc>nhwc"});
  out.push_back({"max_pool2d_grad", {x, y, y}, attrs, dtype, {}, "nhwc,nhwc,nhwc>nhwc"});
  out.push_back({"max_pool2d_places", {x}, attrs, dtype, {}, "nhwc>nhwc,nhwc"});
  out.push_back({"max_pool2d_places_grad",
                 {y, y},
                 with(attrs, "input_shape", {x[0], x[3], x[1], x[2]}),
                 dtype,
                 {{1, {.dtype = DType::kU8, .low = 0, .limit = window * window + 1}}},
                 "nhwc,nhwc>nhwc"});
}

// What the gradient of lstm_kept is in bf16 jobs.
void add_lstm(std::vector<Case>& out, const Shape& x, std::int64_t units) {
  const Shape state{x[1], units}, y{x[0], x[1], units}, w_ih{4 * units, x[2]}, w_hh{4 * units, units};
  const Shape bias{4 * units};
  out.push_back({"lstm_kept", {x, state, state, w_ih, w_hh, bias, bias}, {}, DType::kBF16});
  const std::vector<Shape> in{x, state, w_ih, w_hh, y, {x[0], x[1], 4 * units}, y, y, state, state};
  std::map<int, Special> low;
  for (int i = 0; i < static_cast<int>(in.size()); ++i) low[i] = {.dtype = DType::kBF16};
  out.push_back({"lstm_kept_grad", in, {}, DType::kF32, low, several(10, "f32") + ">bf16,bf16,bf16,-,-,-,-"});
}

}  // namespace

void add_formed_cases(std::vector<Case>& out) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    add_conv(out, {.n = 3, .c = 3, .h = 17, .o = 32, .k = 5, .stride = 2, .pad = 2}, dtype);
    add_conv(out, {.n = 5, .c = 32, .h = 9, .o = 64, .k = 3, .pad = 1}, dtype);
    add_conv(out, {.n = 2, .c = 64, .h = 8, .o = 48, .k = 3, .stride = 2, .pad = 1}, dtype);
    add_conv(out, {.n = 4, .c = 64, .h = 6, .o = 96, .k = 1}, dtype);
    add_conv(out, {.n = 3, .c = 32, .h = 7, .o = 64, .k = 1, .stride = 2}, dtype);
    add_conv(out, {.n = 2, .c = 5, .h = 9, .o = 7, .k = 1, .stride = 3}, dtype);
    add_conv(out, {.n = 9, .c = 40, .h = 12, .o = 256, .k = 1}, dtype);
    add_conv(out, {.n = 1, .c = 160, .h = 4, .o = 192, .k = 3, .pad = 1}, dtype);  // cut over output channels
    add_conv(out, {.n = 7, .c = 192, .h = 5, .o = 128, .k = 3, .pad = 1}, dtype);  // and over images
    add_conv(out, {.n = 3, .c = 32, .h = 6, .o = 64, .k = 3, .pad = 1, .groups = 2}, dtype);
    add_conv(out, {.n = 3, .c = 5, .h = 6, .o = 7, .k = 3}, dtype);
    add_conv(out, {.n = 2, .c = 20, .h = 13, .o = 24, .k = 5, .pad = 2}, dtype);
    add_conv(out, {.n = 2, .c = 4, .h = 6, .o = 6, .k = 3}, dtype);
  }
  for (const bool x : {false, true})
    for (const bool dy : {false, true})
      for (const bool y : {false, true}) add_norm(out, 133, 37, x, dy, y);
  add_norm(out, 1, 5, true, true, true);
  add_norm(out, 2, 3, true, true, true);
  add_norm(out, 40, 1025, true, true, true);
  add_norm(out, 5000, 64, true, true, true);
  add_lstm(out, {1, 1, 1}, 1);
  add_lstm(out, {4, 3, 5}, 7);
  add_lstm(out, {3, 40, 20}, 24);
  add_lstm(out, {5, 33, 48}, 64);
  add_lstm(out, {2, 20, 8}, 288);
  add_lstm(out, {0, 2, 3}, 4);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    add_pool(out, {3, 13, 12, 20}, 3, 2, 0, dtype);
    add_pool(out, {2, 8, 9, 33}, 3, 2, 1, dtype);
    add_pool(out, {20, 8, 8, 64}, 2, 1, 0, dtype);
    add_pool(out, {2, 5, 5, 3}, 3, 1, 1, dtype);
  }
  for (const bool transposed : {false, true}) {
    const op::Attrs attrs{{transposed ? "transpose_a" : "transpose_b", true}};
    for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{300, 1200}, {700, 130}})
      out.push_back({"matmul",
                     {transposed ? Shape{40, m} : Shape{m, 40}, transposed ? Shape{40, n} : Shape{n, 40}},
                     attrs,
                     DType::kF32,
                     {{0, {.dtype = DType::kBF16}}, {1, {.dtype = DType::kBF16}}},
                     "f32,f32>-"});
  }
  // B in f32, rounded where it is read; the last by rows, which oneDNN leaves to others.
  for (const bool transposed : {false, true})
    for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{64, 1500}, {30, 130}, {300, 70}})
      out.push_back({"matmul",
                     {{m, 200}, transposed ? Shape{n, 200} : Shape{200, n}},
                     {{"transpose_b", transposed}},
                     DType::kF32,
                     {{0, {.dtype = DType::kBF16}}},
                     "-,bf16>-"});
  for (const Shape& s : {Shape{7}, Shape{3, 700}}) out.push_back({"add", {s, s}, {}, DType::kBF16});
  out.push_back({"bias_grad", {{2500, 40}}, {}});
  const std::map<int, Special> low{{0, {.dtype = DType::kBF16}}};
  out.push_back({"layer_norm", {{300, 40}, {40}, {40}}, {}, DType::kF32, low, "f32,f32,f32>bf16,-,-"});
  for (const Shape& s : {Shape{1, 5}, Shape{2, 3}, Shape{133, 37}, Shape{5000, 64}, Shape{40, 2049}})
    add_f32_norm(out, s[0], s[1]);
}

}  // namespace trireme::kernel::test
