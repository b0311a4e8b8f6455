// Cases for the ops of sequence models: functions, normalisation, attention.
#include "tests/kernel/cases.h"

namespace trireme::kernel::test {
namespace {

void add_functions(std::vector<Case>& out) {
  for (const Shape& s : {Shape{}, Shape{7}, Shape{0}, Shape{3, 5, 100}, Shape{262147}}) {
    for (const char* op : {"exp", "tanh", "sigmoid", "silu", "erf"}) out.push_back({op, {s}, {}});
    for (const bool tanh : {false, true}) out.push_back({"gelu", {s}, {{"tanh", tanh}}});
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
}

}  // namespace

void add_net_cases(std::vector<Case>& out) {
  add_functions(out);
  add_layer_norms(out);
  add_attentions(out);
}

}  // namespace trireme::kernel::test
