#include "tests/kernel/cases.h"

#include <fmt/format.h>

#include <utility>

namespace trireme::kernel::test {
namespace {

using Ints = std::vector<std::int64_t>;

struct Conv {
  std::int64_t n, c, h, w, o, kh, kw;
  std::int64_t stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1, groups = 1;

  std::int64_t oh() const { return (h + 2 * pad_h - dilation_h * (kh - 1) - 1) / stride_h + 1; }
  std::int64_t ow() const { return (w + 2 * pad_w - dilation_w * (kw - 1) - 1) / stride_w + 1; }
};

void add_conv(std::vector<Case>& out, const Conv& v, DType dtype = DType::kF32) {
  const op::Attrs attrs{{"stride_h", v.stride_h}, {"stride_w", v.stride_w},     {"pad_h", v.pad_h},
                        {"pad_w", v.pad_w},       {"dilation_h", v.dilation_h}, {"dilation_w", v.dilation_w},
                        {"groups", v.groups}};
  const Ints x{v.n, v.c, v.h, v.w}, filter{v.o, v.c / v.groups, v.kh, v.kw};
  const Shape y{v.n, v.o, v.oh(), v.ow()};
  op::Attrs input_grad = attrs, filter_grad = attrs;
  input_grad.set("input_shape", x);
  filter_grad.set("filter_shape", filter);
  out.push_back({"conv2d", {Shape(x), Shape(filter)}, attrs, dtype});
  out.push_back({"conv2d_input_grad", {Shape(filter), y}, input_grad, dtype});
  out.push_back({"conv2d_filter_grad", {Shape(x), y}, filter_grad, dtype});
}

void add_convs(std::vector<Case>& out) {
  add_conv(out, {.n = 3, .c = 1, .h = 28, .w = 28, .o = 16, .kh = 5, .kw = 5, .pad_h = 2, .pad_w = 2});
  add_conv(out, {.n = 5, .c = 16, .h = 14, .w = 14, .o = 32, .kh = 5, .kw = 5, .pad_h = 2, .pad_w = 2});
  add_conv(out, {.n = 3, .c = 4, .h = 9, .w = 7, .o = 6, .kh = 3, .kw = 2, .stride_h = 2, .pad_h = 1});
  add_conv(out,
           {.n = 3, .c = 4, .h = 9, .w = 8, .o = 6, .kh = 3, .kw = 3, .stride_w = 2, .pad_h = 1, .pad_w = 1});
  add_conv(
      out,
      {.n = 2, .c = 3, .h = 11, .w = 12, .o = 5, .kh = 4, .kw = 3, .stride_h = 3, .stride_w = 2, .pad_w = 2});
  add_conv(out, {.n = 2,
                 .c = 4,
                 .h = 11,
                 .w = 10,
                 .o = 4,
                 .kh = 3,
                 .kw = 3,
                 .pad_h = 2,
                 .pad_w = 2,
                 .dilation_h = 2,
                 .dilation_w = 2});
  add_conv(out,
           {.n = 4, .c = 6, .h = 8, .w = 8, .o = 9, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1, .groups = 3});
  add_conv(out, {.n = 2, .c = 5, .h = 6, .w = 6, .o = 5, .kh = 3, .kw = 3, .groups = 5});
  add_conv(out, {.n = 7, .c = 8, .h = 5, .w = 5, .o = 12, .kh = 1, .kw = 1});
  add_conv(out, {.n = 3, .c = 8, .h = 5, .w = 5, .o = 6, .kh = 1, .kw = 1, .groups = 2});
  add_conv(out, {.n = 3, .c = 2, .h = 7, .w = 7, .o = 4, .kh = 1, .kw = 1, .stride_h = 2, .stride_w = 2});
  add_conv(out, {.n = 1, .c = 3, .h = 6, .w = 6, .o = 2, .kh = 6, .kw = 6});
  // Columns of one image do not fit one block.
  add_conv(out, {.n = 3, .c = 48, .h = 12, .w = 40, .o = 8, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1});
  add_conv(out, {.n = 3, .c = 32, .h = 10, .w = 13, .o = 48, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1});
  add_conv(out, {.n = 2, .c = 64, .h = 9, .w = 11, .o = 80, .kh = 5, .kw = 5, .pad_h = 2, .pad_w = 4});
  // Enough work for eight threads, which cut images: along pixels, along channels.
  add_conv(out, {.n = 9, .c = 48, .h = 40, .w = 40, .o = 40, .kh = 1, .kw = 1});
  add_conv(out, {.n = 16, .c = 208, .h = 5, .w = 5, .o = 416, .kh = 1, .kw = 1});
  add_conv(out, {.n = 0, .c = 2, .h = 5, .w = 5, .o = 3, .kh = 3, .kw = 3});
  for (const DType half : {DType::kBF16, DType::kF16}) {
    add_conv(out, {.n = 3, .c = 1, .h = 14, .w = 14, .o = 16, .kh = 5, .kw = 5, .pad_h = 2, .pad_w = 2},
             half);
    add_conv(out, {.n = 5, .c = 32, .h = 8, .w = 8, .o = 48, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1}, half);
    add_conv(out, {.n = 3, .c = 8, .h = 5, .w = 5, .o = 6, .kh = 1, .kw = 1, .groups = 2}, half);
  }
}

void add_pool(std::vector<Case>& out, const Shape& x, std::int64_t window, std::int64_t stride,
              std::int64_t pad) {
  const op::Attrs attrs{{"window_h", window}, {"window_w", window}, {"stride_h", stride},
                        {"stride_w", stride}, {"pad_h", pad},       {"pad_w", pad}};
  const auto size = [&](std::int64_t in) { return (in + 2 * pad - window) / stride + 1; };
  const Shape y{x[0], x[1], size(x[2]), size(x[3])};
  out.push_back({"max_pool2d", {x}, attrs});
  out.push_back({"max_pool2d_grad", {x, y, y}, attrs});
  op::Attrs places = attrs;
  places.set("input_shape", std::vector<std::int64_t>(x.dims().begin(), x.dims().end()));
  if (window * window > 49) return;
  out.push_back({"max_pool2d_places", {x}, attrs});
  out.push_back({"max_pool2d_places_grad",
                 {y, y},
                 places,
                 DType::kF32,
                 {{1, {.dtype = DType::kU8, .low = 0, .limit = window * window + 1}}}});
}

void add_products(std::vector<Case>& out) {
  for (const Ints& mnk :
       {Ints{37, 53, 71}, Ints{1, 1, 1}, Ints{10, 130, 257}, Ints{130, 10, 128}, Ints{3, 4, 0}, Ints{0, 4, 3},
        Ints{150, 300, 200}, Ints{1, 700, 300}, Ints{300, 310, 600}})
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        out.push_back({"matmul",
                       {a ? Shape{mnk[2], mnk[0]} : Shape{mnk[0], mnk[2]},
                        b ? Shape{mnk[1], mnk[2]} : Shape{mnk[2], mnk[1]}},
                       {{"transpose_a", a}, {"transpose_b", b}}});
  // Batches: each its own, one right factor for all, broadcast both ways, many small ones, none.
  const std::vector<std::pair<Shape, Shape>> batches{
      {{5, 37, 20}, {5, 20, 33}}, {{6, 37, 20}, {20, 33}},        {{37, 20}, {4, 20, 33}},
      {{2, 1, 7, 5}, {3, 5, 9}},  {{300, 24, 40}, {300, 40, 24}}, {{0, 4, 3}, {3, 2}}};
  for (const auto& [a, b] : batches) out.push_back({"matmul", {a, b}, {}});
  out.push_back({"matmul", {{6, 20, 37}, {33, 20}}, {{"transpose_a", true}, {"transpose_b", true}}});
  out.push_back({"matmul", {{6, 37, 20}, {33, 20}}, {{"transpose_b", true}}});
  // In bf16, of more than one chunk of depth, too.
  for (const Ints& mnk : {Ints{37, 53, 71}, Ints{70, 90, 600}, Ints{17, 330, 1100}})
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        out.push_back({"matmul",
                       {a ? Shape{mnk[2], mnk[0]} : Shape{mnk[0], mnk[2]},
                        b ? Shape{mnk[1], mnk[2]} : Shape{mnk[2], mnk[1]}},
                       {{"transpose_a", a}, {"transpose_b", b}},
                       DType::kBF16});
  // A result that is cut into pieces: f32 sums of all of it would take 18 MB.
  out.push_back({"matmul", {{2, 3000}, {2, 1500}}, {{"transpose_a", true}}, DType::kBF16});
  for (const DType half : {DType::kBF16, DType::kF16}) {
    out.push_back({"matmul", {{37, 71}, {53, 71}}, {{"transpose_b", true}}, half});
    out.push_back({"matmul", {{150, 200}, {200, 300}}, {}, half});
    out.push_back({"matmul", {{3, 2, 7, 5}, {2, 5, 9}}, {}, half});
    out.push_back({"matmul", {{3, 0}, {0, 2}}, {}, half});
    out.push_back({"matmul", {{71, 137}, {71, 200}}, {{"transpose_a", true}}, half});
    out.push_back({"matmul", {{6, 37, 20}, {20, 33}}, {}, half});
  }
}

void add_elementwise(std::vector<Case>& out) {
  for (const Shape& s : {Shape{}, Shape{7}, Shape{0}, Shape{3, 5, 100}, Shape{262147}}) {
    for (const char* op : {"add", "sub", "mul", "relu_grad"}) out.push_back({op, {s, s}, {}});
    out.push_back({"relu", {s}, {}});
    out.push_back({"scale", {s}, {{"factor", -1.7}}});
    for (const double decay : {0.0, 0.01}) {
      out.push_back({"apply_sgd", {s, s, {}}, {{"weight_decay", decay}}});
      for (const bool nesterov : {false, true})
        out.push_back({"apply_momentum",
                       {s, s, s, {}},
                       {{"momentum", 0.9}, {"weight_decay", decay}, {"nesterov", nesterov}}});
    }
  }
  for (const Shape& s : {Shape{}, Shape{0}, Shape{3, 7}, Shape{262147}})
    for (const DType half : {DType::kBF16, DType::kF16}) {
      out.push_back({"cast", {s}, {{"dtype", half}}});
      out.push_back({"cast", {s}, {{"dtype", DType::kF32}}, half});
    }
  for (const Shape& s : {Shape{1}, Shape{3, 5, 7}, Shape{262147}})
    for (const bool keep : {false, true})
      out.push_back({"sum", {s}, {{"axes", Ints{}}, {"keep_dims", keep}}});
  for (const Shape& s : {Shape{5, 3, 4, 6}, Shape{64, 10}, Shape{2, 3}, Shape{3, 2, 5}, Shape{20, 16, 28, 28},
                         Shape{700, 300}}) {
    out.push_back({"bias_add", {s, {s[1]}}, {}});
    out.push_back({"bias_grad", {s}, {}});
  }
}

void add_epilogues(std::vector<Case>& out) {
  for (const bool relu : {false, true}) {
    for (const Ints& mnk : {Ints{37, 53, 71}, Ints{1, 1, 1}, Ints{3000, 130, 40}})
      for (const bool b : {false, true})
        out.push_back({"matmul_bias_act",
                       {{mnk[0], mnk[2]}, b ? Shape{mnk[1], mnk[2]} : Shape{mnk[2], mnk[1]}, {mnk[1]}},
                       {{"transpose_b", b}, {"relu", relu}}});
    out.push_back({"conv2d_bias_act",
                   {{3, 1, 28, 28}, {16, 1, 5, 5}, {16}},
                   {{"pad_h", std::int64_t{2}}, {"relu", relu}}});
    out.push_back({"conv2d_bias_act", {{41, 8, 14, 14}, {32, 8, 3, 3}, {32}}, {{"relu", relu}}});
  }
}

// Chains with vector rows and without, inputs that broadcast, one output and several; blocks of every length.
void add_fused(std::vector<Case>& out) {
  const op::Attrs chain{
      {"program", std::string(R"({"inputs":3,"steps":[["add",[0,1]],["mul",[3,2]],["tanh",[4]],)"
                              R"(["scale",[5],{"factor":0.5}],["sub",[6,0]]],"outputs":[7]})")}};
  for (const Shape& s : {Shape{3, 7}, Shape{0, 4}, Shape{1, 1}, Shape{37, 1000}, Shape{500, 700}}) {
    out.push_back({"fused", {s, s, s}, chain});
    out.push_back({"fused", {s, {s[1]}, {}}, chain});
    out.push_back({"fused", {s, {s[0], 1}, {1, s[1]}}, chain});
  }
  const op::Attrs two{
      {"program", std::string(R"({"inputs":2,"steps":[["relu",[0]],["relu_grad",[1,2]],["square",[3]],)"
                              R"(["add",[0,4]]],"outputs":[3,2,5]})")}};
  for (const Shape& s : {Shape{9}, Shape{4097}, Shape{262147}}) out.push_back({"fused", {s, s}, two});
}

}  // namespace

std::string Case::to_string() const {
  std::string text = fmt::format("{}{}{}{} {}", op, forms.empty() ? "" : "[", forms, forms.empty() ? "" : "]",
                                 dtype_name(dtype));
  for (const Shape& s : inputs) text += fmt::format(" {}", s.to_string());
  return text;
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  add_convs(out);
  for (const std::int64_t w : {2, 5, 8, 14, 16, 28, 33, 34}) add_pool(out, {2, 3, 6, w}, 2, 2, 0);
  add_pool(out, {20, 16, 28, 28}, 2, 2, 0);
  add_pool(out, {2, 3, 9, 7}, 2, 2, 0);
  add_pool(out, {2, 2, 10, 10}, 3, 2, 1);
  add_pool(out, {2, 2, 7, 8}, 3, 1, 0);
  add_products(out);
  add_elementwise(out);
  add_epilogues(out);
  add_fused(out);
  add_net_cases(out);
  add_formed_cases(out);
  return out;
}

}  // namespace trireme::kernel::test
