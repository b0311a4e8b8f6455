// Cases for functions, broadcasting, copies, adaptive updates, normalisation, attention.
#include <utility>

#include "tests/kernel/cases.h"
#include "tests/kernel/runner.h"

namespace trireme::kernel::test {
namespace {

constexpr Special kPositive{.dtype = DType::kF32, .low = 0, .limit = 0, .positive = true};

void add_functions(std::vector<Case>& out) {
  for (const Shape& s : {Shape{}, Shape{7}, Shape{0}, Shape{3, 5, 100}, Shape{262147}}) {
    for (const char* op : {"exp", "tanh", "sigmoid", "silu", "erf", "softplus"}) out.push_back({op, {s}, {}});
    for (const char* op : {"abs", "neg", "square"}) out.push_back({op, {s}, {}});
    for (const char* op : {"log", "reciprocal", "rsqrt", "sqrt"})
      out.push_back({op, {s}, {}, DType::kF32, {{0, kPositive}}});
    for (const bool tanh : {false, true}) out.push_back({"gelu", {s}, {{"tanh", tanh}}});
  }
}

// Operands of every kind of broadcasting, and equal ones.
void add_pairs(std::vector<Case>& out) {
  const std::vector<std::pair<Shape, Shape>> pairs{{{}, {}},
                                                   {{7}, {7}},
                                                   {{0}, {1}},
                                                   {{3, 5, 100}, {3, 5, 100}},
                                                   {{262147}, {}},
                                                   {{}, {262147}},
                                                   {{300, 700}, {700}},
                                                   {{700}, {300, 700}},
                                                   {{300, 700}, {300, 1}},
                                                   {{1, 700}, {300, 1}},
                                                   {{2, 3, 4, 5}, {3, 1, 5}},
                                                   {{2, 1, 4, 1}, {1, 3, 1, 5}},
                                                   {{5, 1, 6}, {5, 4, 6}},
                                                   {{40, 16, 10, 10}, {16, 1, 1}}};
  for (const auto& [a, b] : pairs)
    for (const char* op : {"add", "sub", "mul", "maximum", "minimum", "squared_difference"})
      out.push_back({op, {a, b}, {}});
}

void add_copies(std::vector<Case>& out) {
  using Ints = std::vector<std::int64_t>;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [from, to] : {std::pair<Shape, Ints>{{3, 1, 1, 40}, {3, 5, 7, 40}},
                                   {{3, 40, 1, 1}, {3, 40, 5, 7}},
                                   {{}, {300, 700}},
                                   {{2, 1, 3, 1}, {4, 2, 5, 3, 6}},
                                   {{7}, {2, 7}},
                                   {{1, 1}, {1, 1}},
                                   {{4, 1}, {4, 0}}})
      out.push_back({"broadcast_to", {from}, {{"shape", to}}, dtype});
    out.push_back({"split", {{6, 5}}, {{"axis", std::int64_t{0}}, {"sizes", Ints{1, 0, 5}}}, dtype});
    out.push_back({"split", {{700, 300}}, {{"axis", std::int64_t{-1}}, {"sizes", Ints{100, 1, 199}}}, dtype});
    out.push_back({"split", {{3, 4, 5}}, {{"axis", std::int64_t{1}}, {"sizes", Ints{3, 1}}}, dtype});
    out.push_back({"split", {{0, 4}}, {{"axis", std::int64_t{1}}, {"sizes", Ints{3, 1}}}, dtype});
    out.push_back({"concat", {{1, 5}, {0, 5}, {3, 5}}, {{"axis", std::int64_t{0}}}, dtype});
    out.push_back({"concat", {{700, 100}, {700, 1}, {700, 150}}, {{"axis", std::int64_t{1}}}, dtype});
    out.push_back({"concat", {{3, 4, 5}}, {{"axis", std::int64_t{-2}}}, dtype});
    for (const auto& [shape, order] : std::vector<std::pair<Shape, Ints>>{{{}, {}},
                                                                          {{5}, {}},
                                                                          {{0, 3}, {}},
                                                                          {{3, 7}, {0, 1}},
                                                                          {{3, 7}, {}},
                                                                          {{500, 700}, {}},
                                                                          {{8, 40, 4, 128}, {0, 2, 1, 3}},
                                                                          {{8, 40, 4, 17}, {0, 3, 1, 2}},
                                                                          {{2, 3, 4, 5, 6}, {}},
                                                                          {{2, 3, 4, 5, 6}, {2, 4, 0, 3, 1}},
                                                                          {{3, 1, 5, 1}, {3, 2, 1, 0}},
                                                                          {{4, 33, 18}, {1, 0, 2}}})
      out.push_back({"transpose", {shape}, {{"order", order}}, dtype});
  }
}

void add_updates(std::vector<Case>& out) {
  const Special step{.dtype = DType::kI64, .low = 3, .limit = 4};
  const auto state = [](const Shape& s, bool used) { return used ? s : Shape{0}; };
  for (const Shape& s : {Shape{}, Shape{7}, Shape{0}, Shape{131101}})
    for (const double decay : {0.0, 0.01})
      for (const bool first : {false, true})
        for (const bool second : {false, true}) {
          if (s.num_elems() > 1000 && (decay == 0 || first != second)) continue;  // large ones take time
          for (const char* op : {"apply_adam", "apply_adamw"})
            out.push_back({op,
                           {s, s, s, state(s, first), s, {}, {}},
                           {{"weight_decay", decay}, {"amsgrad", first}, {"eps_hat", second}, {"eps", 1e-3}},
                           DType::kF32,
                           {{2, kPositive}, {3, kPositive}, {6, step}}});
          for (const bool inside : {false, true}) {
            // Deviations near 0 under a root are beyond any bound unless eps is added first.
            if (first && !inside && s.num_elems() > 1000) continue;
            out.push_back({"apply_rmsprop",
                           {s, s, state(s, first), state(s, second), s, {}},
                           {{"weight_decay", decay},
                            {"centered", first},
                            {"momentum", second ? 0.9 : 0.0},
                            {"eps_inside", inside},
                            {"rate_inside", inside},
                            {"eps", 0.1}},
                           DType::kF32,
                           {{1, kPositive}}});
          }
          out.push_back({"apply_adagrad",
                         {s, s, s, {}, {}},
                         {{"weight_decay", decay},
                          {"eps_inside", first},
                          {"lr_decay", second ? 0.1 : 0.0},
                          {"eps", 0.1}},
                         DType::kF32,
                         {{1, kPositive}, {4, step}}});
          out.push_back({"apply_lars", {s, s, s, {}}, {{"weight_decay", decay}, {"eps", first ? 0.5 : 0.0}}});
        }
}

void add_layer_norms(std::vector<Case>& out) {
  for (const Shape& x : {Shape{5, 7}, Shape{1, 1}, Shape{0, 3}, Shape{3, 2, 64}, Shape{600, 256},
                         Shape{2, 100}, Shape{3, 4111}, Shape{17, 79}}) {
    const Shape stats = x.rank() == 3 ? Shape{x[0], x[1]} : Shape{x[0]};
    const Shape params{x.dim(-1)};
    out.push_back({"layer_norm", {x, params, params}, {}});
    out.push_back({"layer_norm_grad", {x, params, stats, stats, x}, {}});
  }
  // All of a sample.
  const op::Attrs two{{"num_axes", std::int64_t{2}}, {"eps", 0.1}};
  out.push_back({"layer_norm", {{4, 6, 9}, {6, 9}, {6, 9}}, two});
  out.push_back({"layer_norm_grad", {{4, 6, 9}, {6, 9}, {4}, {4}, {4, 6, 9}}, two});
}

void add_batch_norms(std::vector<Case>& out) {
  for (const Shape& x :
       {Shape{2, 3, 8}, Shape{5, 4, 6, 7}, Shape{1, 1, 100}, Shape{8, 20, 32, 32}, Shape{2, 2, 3, 5, 4}}) {
    const Shape c{x[1]};
    out.push_back({"batch_norm", {x, c, c}, {}});
    out.push_back({"batch_norm_grad", {x, c, c, c, x}, {}});
    out.push_back({"batch_norm_inference", {x, c, c, c, c}, {}, DType::kF32, {{4, kPositive}}});
  }
}

void add_avg_pools(std::vector<Case>& out) {
  struct Pool {
    Shape x;
    std::int64_t h, w, stride_h, stride_w, pad_h, pad_w;
  };
  for (const Pool& p : {Pool{{2, 3, 6, 8}, 2, 2, 2, 2, 0, 0},
                        {{2, 3, 9, 7}, 3, 2, 1, 3, 1, 1},
                        {{1, 2, 5, 5}, 5, 5, 1, 1, 0, 0},
                        {{1, 2, 5, 6}, 3, 4, 2, 1, 1, 2},
                        {{20, 16, 28, 28}, 3, 3, 2, 2, 1, 1},
                        {{2, 1, 7, 7}, 2, 2, 3, 3, 0, 0}})
    for (const bool include_pad : {false, true}) {
      op::Attrs attrs{
          {"window_h", p.h},  {"window_w", p.w},  {"stride_h", p.stride_h},          {"stride_w", p.stride_w},
          {"pad_h", p.pad_h}, {"pad_w", p.pad_w}, {"count_include_pad", include_pad}};
      out.push_back({"avg_pool2d", {p.x}, attrs});
      const Shape y = Problem(out.back()).outputs[0].shape;
      attrs.set("input_shape", std::vector<std::int64_t>(p.x.dims().begin(), p.x.dims().end()));
      out.push_back({"avg_pool2d_grad", {y}, attrs});
    }
}

void add_dropouts(std::vector<Case>& out) {
  const Special number{.dtype = DType::kI64, .low = 0, .limit = 1 << 20};
  for (const Shape& x : {Shape{1}, Shape{0, 3}, Shape{5, 7}, Shape{3, 64}, Shape{3, 5, 41}, Shape{2, 70001}})
    for (const double rate : {0.0, 0.1, 0.5})
      out.push_back({"dropout",
                     {x, {}, {}, {x[0]}},
                     {{"rate", rate}, {"stream", std::int64_t{3}}},
                     DType::kF32,
                     {{1, number}, {2, number}, {3, number}}});
}

void add_dropout_parts(std::vector<Case>& out) {
  const Special number{.dtype = DType::kI64, .low = 0, .limit = 1 << 20};
  struct Part {
    Shape x;
    std::vector<std::int64_t> whole;
    std::int64_t dim;
  };
  for (const Part& p : {Part{{5, 3}, {7}, 1}, Part{{3, 64}, {192}, 1}, Part{{2, 3, 41}, {9, 41}, 1},
                        Part{{2, 3, 41}, {3, 90}, 2}, Part{{2, 35001}, {70001}, 1}, Part{{0, 3}, {5}, 1},
                        Part{{2, 0}, {5}, 1}})
    out.push_back(
        {"dropout_part",
         {p.x, {}, {}, {p.x[0]}, {}},
         {{"rate", 0.5}, {"stream", std::int64_t{3}}, {"whole", p.whole}, {"dim", p.dim}},
         DType::kF32,
         {{1, number}, {2, number}, {3, number}, {4, {.dtype = DType::kI64, .low = 0, .limit = 1 << 10}}}});
}

void add_responses(std::vector<Case>& out) {
  for (const Shape& x :
       {Shape{2, 3}, Shape{3, 7, 5}, Shape{2, 20, 30, 40}, Shape{1, 1, 1, 1}, Shape{0, 3, 4}})
    for (const std::int64_t size : {1, 2, 5, 9})
      out.push_back({"local_response_norm", {x}, {{"size", size}, {"alpha", 0.5}, {"k", 2.0}}});
}

void add_softmax(std::vector<Case>& out) {
  for (const Shape& s :
       {Shape{1}, Shape{5, 7}, Shape{3, 4, 65}, Shape{700, 100}, Shape{2, 5000}, Shape{0, 3}})
    for (const char* op : {"softmax", "log_softmax"}) out.push_back({op, {s}, {}});
  for (const Shape& s : {Shape{1, 1}, Shape{33, 65}, Shape{600, 130}, Shape{2, 5000}})
    for (const DType index : {DType::kI32, DType::kI64}) {
      const std::map<int, Special> special{{1, {.dtype = index, .low = 0, .limit = s[1]}}, {2, {}}};
      out.push_back({"softmax_cross_entropy", {s, {s[0]}, {s[0]}}, {}, DType::kF32, special});
      out.push_back({"correct", {s, {s[0]}, {s[0]}}, {}, DType::kF32, special});
      out.push_back({"softmax_cross_entropy_grad", {s, {s[0]}, {s[0]}, {s[0]}}, {}, DType::kF32, special});
    }
}

// Ids reach beyond the table on either side.
void add_embeddings(std::vector<Case>& out) {
  using Ints = std::vector<std::int64_t>;
  for (const DType index : {DType::kI32, DType::kI64})
    for (const Shape& ids : {Shape{}, Shape{0}, Shape{5}, Shape{30, 40}}) {
      const std::map<int, Special> special{{1, {.dtype = index, .low = -2, .limit = 20}}};
      for (const std::int64_t size : {1, 7, 130}) {
        Ints dims(ids.dims().begin(), ids.dims().end());
        dims.push_back(size);
        out.push_back({"embedding", {{17, size}, ids}, {}, DType::kF32, special});
        out.push_back(
            {"embedding_grad", {Shape(dims), ids}, {{"shape", Ints{17, size}}}, DType::kF32, special});
      }
    }
  out.push_back(
      {"embedding", {{9, 5}, {4}}, {}, DType::kBF16, {{1, {.dtype = DType::kI32, .low = 0, .limit = 9}}}});
}

void add_sums(std::vector<Case>& out) {
  using Ints = std::vector<std::int64_t>;
  const std::vector<std::pair<Shape, Ints>> sums{
      {{5, 7}, {0}},       {{5, 7}, {1}},          {{700, 300}, {0}},
      {{700, 300}, {1}},   {{4, 5, 6}, {1}},       {{4, 5, 6}, {0, 1}},
      {{4, 5, 6}, {1, 2}}, {{4, 5, 6}, {0, 2}},    {{9, 16, 10, 10}, {0, 2, 3}},
      {{1, 6, 1}, {1}},    {{40, 128, 64}, {0}},   {{6, 1, 5}, {0}},
      {{1, 5, 1, 4}, {1}}, {{1, 5, 1, 4}, {0, 3}}, {{3, 200, 500}, {1}}};
  for (const auto& [shape, axes] : sums)
    for (const char* op : {"sum", "mean"})
      for (const bool keep : {false, true})
        out.push_back({op, {shape}, {{"axes", axes}, {"keep_dims", keep}}});
  out.push_back({"mean", {{37, 50}}, {}});
}

void add_recurrent(std::vector<Case>& out) {
  const auto add = [&](const std::string& op, std::int64_t gates, const Shape& x, std::int64_t units,
                       op::Attrs attrs) {
    const Shape state{x[1], units}, y{x[0], x[1], units};
    std::vector<Shape> in{x, state};
    if (op == "lstm") in.push_back(state);
    in.insert(in.end(), {{gates * units, x[2]}, {gates * units, units}, {gates * units}, {gates * units}});
    out.push_back({op, in, attrs});
    in.insert(in.end(), {y, state});
    if (op == "lstm") in.push_back(state);
    out.push_back({op + "_grad", in, attrs});
    if (op != "lstm") return;
    in.resize(7);
    out.push_back({"lstm_kept", in, attrs});
    out.push_back({"lstm_kept_grad",
                   {x, state, in[3], in[4], y, {x[0], x[1], gates * units}, y, y, state, state},
                   attrs});
  };
  for (const auto& [x, units] : std::vector<std::pair<Shape, std::int64_t>>{{{1, 1, 1}, 1},
                                                                            {{4, 3, 5}, 7},
                                                                            {{3, 40, 20}, 24},
                                                                            {{5, 33, 48}, 64},
                                                                            {{0, 2, 3}, 4},
                                                                            {{2, 0, 3}, 4}}) {
    // Without gates, rounding grows from step to step with the number of units.
    if (units < 60) add("rnn", 1, x, units, {});
    if (units < 10) add("rnn", 1, x, units, {{"nonlinearity", std::string("relu")}});
    add("lstm", 4, x, units, {});
    add("gru", 3, x, units, {});
  }
  add("lstm", 4, {2, 20, 8}, 288, {});  // on three threads its steps are cut over the gates
}

struct Attention {
  std::int64_t batch, heads, queries, keys, depth, width;
};

void add_attentions(std::vector<Case>& out) {
  for (const Attention& a : {Attention{1, 1, 1, 1, 1, 1},
                             {2, 3, 7, 7, 5, 4},
                             {1, 2, 64, 64, 16, 16},
                             {2, 2, 65, 65, 8, 8},
                             {3, 4, 130, 130, 32, 32},
                             {1, 2, 5, 90, 8, 6},
                             {1, 2, 90, 5, 8, 6},
                             {1, 1, 4, 0, 3, 2},
                             {1, 1, 0, 4, 3, 2},
                             {0, 2, 4, 4, 3, 3}})
    for (const bool causal : {false, true}) {
      const Shape q{a.batch, a.heads, a.queries, a.depth}, k{a.batch, a.heads, a.keys, a.depth};
      const Shape v{a.batch, a.heads, a.keys, a.width}, y{a.batch, a.heads, a.queries, a.width};
      out.push_back({"attention", {q, k, v}, {{"causal", causal}}});
      out.push_back({"attention_grad", {q, k, v, y}, {{"causal", causal}, {"scale", causal ? 0.0 : 0.7}}});
    }
  const Shape s{2, 2, 70, 16};
  for (const DType half : {DType::kBF16, DType::kF16}) {
    out.push_back({"attention", {s, s, s}, {{"causal", true}}, half});
    out.push_back({"attention_grad", {s, s, s, s}, {{"causal", true}}, half});
  }
}

}  // namespace

void add_net_cases(std::vector<Case>& out) {
  add_functions(out);
  add_pairs(out);
  out.push_back({"div", {{30, 70}, {70}}, {}, DType::kF32, {{1, kPositive}}});
  add_copies(out);
  add_updates(out);
  add_layer_norms(out);
  add_batch_norms(out);
  add_avg_pools(out);
  add_dropouts(out);
  add_dropout_parts(out);
  add_responses(out);
  add_softmax(out);
  add_embeddings(out);
  add_sums(out);
  add_recurrent(out);
  add_attentions(out);
}

}  // namespace trireme::kernel::test
