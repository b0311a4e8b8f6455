// Groups made by the fusion passes.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/fused/fused_bias_grad.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_fused(std::vector<OpCase>& all) {
  std::vector<OpCase> t;
  const auto program = [](const char* text) { return Attrs{{"program", std::string(text)}}; };
  const Attrs chain = program(
      R"({"inputs":3,"steps":[["add",[0,1]],["mul",[3,2]],["tanh",[4]],["sub",[5,0]]],"outputs":[6]})");
  t.push_back({&kFused, "chain", {{kReal, {3, 4}}, {kReal, {3, 4}}, {kReal, {3, 4}}}, chain});
  t.push_back({&kFused, "rows and scalars", {{kReal, {3, 4}}, {kReal, {4}}, {kReal, {}}}, chain});
  t.push_back({&kFused, "one element", {{kReal, {1}}, {kReal, {1}}, {kReal, {}}}, chain});
  t.push_back({&kFused, "empty", {{kReal, {0, 3}}, {kReal, {3}}, {kReal, {}}}, chain});
  t.push_back({&kFusedBiasGrad, "chain", {{kReal, {3, 4}}, {kReal, {3, 4}}, {kReal, {3, 4}}}, chain});
  t.push_back({&kFusedBiasGrad, "rows and scalars", {{kReal, {3, 4}}, {kReal, {4}}, {kReal, {}}}, chain});
  t.push_back({&kFusedBiasGrad, "empty", {{kReal, {0, 3}}, {kReal, {3}}, {kReal, {}}}, chain});
  t.push_back({&kFusedBiasGrad, "columns", {{kReal, {70, 16}}, {kReal, {1, 16}}, {kReal, {70, 1}}}, chain});
  for (const bool relu : {false, true}) {
    const std::string note = relu ? "relu" : "plain";
    t.push_back({&kMatmulBiasAct, note, {{kReal, {3, 4}}, {kReal, {4, 5}}, {kReal, {5}}}, {{"relu", relu}}});
    t.push_back({&kMatmulBiasAct,
                 note + " transposed",
                 {{kReal, {4, 3}}, {kReal, {5, 4}}, {kReal, {5}}},
                 {{"transpose_a", true}, {"transpose_b", true}, {"relu", relu}}});
    t.push_back({&kConv2dBiasAct,
                 note,
                 {{kReal, {2, 2, 5, 4}}, {kReal, {3, 2, 3, 3}}, {kReal, {3}}},
                 {{"pad_h", std::int64_t{1}}, {"relu", relu}}});
  }
  t.push_back({&kMatmulBiasAct, "empty", {{kReal, {0, 4}}, {kReal, {4, 5}}, {kReal, {5}}}});
  t.push_back({&kFused, "several blocks", {{kReal, {7, 100}}, {kReal, {100}}, {kReal, {7, 1}}}, chain});
  for (OpCase& c : t) {
    c.half_slack = 16;  // every part rounds to 16 bits
    all.push_back(std::move(c));
  }
}

}  // namespace trireme::op::testing
