// Reductions.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_reduce(std::vector<OpCase>& t) {
  for (const OpDef* d : {&kSum, &kMean, &kMax, &kMin, &kProd, &kLogsumexp}) {
    t.push_back({d, "all", {{kDistinct, {3, 4}}}});
    t.push_back({d, "middle", {{kDistinct, {2, 3, 4}}}, axes({1}, false)});
    t.push_back({d, "outer kept", {{kDistinct, {2, 3, 4}}}, axes({0, -1}, true)});
    t.push_back({d, "one element", {{kDistinct, {1}}}});
    t.push_back({d, "scalar", {{kDistinct, {}}}});
    t.push_back({d, "empty result", {{kDistinct, {0, 3}}}, axes({1}, false)});
  }
  for (const OpDef* d : {&kSum, &kProd})
    t.push_back({d, "nothing to fold", {{kReal, {0, 3}}}, axes({0}, false)});
  for (const OpDef* d : {&kSum, &kMax, &kMin, &kProd})
    t.push_back({d, "integers", {{kInts, {3, 3}}}, axes({0}, false)});
  t.push_back({&kProd, "outer and inner", {{kReal, {2, 3, 2}}}, axes({0, 2}, false)});
  // Weights hold zeros: one, and two, in every row.
  t.push_back({&kProd, "a zero", {{kWeights, {2, 4}}}, axes({1}, false)});
  t.push_back({&kProd, "two zeros", {{kWeights, {2, 8}}}, axes({1}, false)});
  t.push_back({&kProd, "few factors", {{kReal, {3, 4}}}, axes({0}, true)});
  for (const OpDef* d : {&kArgmax, &kArgmin}) {
    t.push_back({d, "last", {{kDistinct, {3, 4}}}});
    t.push_back({d, "first kept", {{kDistinct, {3, 4}}}, {{"axis", std::int64_t{0}}, {"keep_dims", true}}});
    t.push_back({d, "middle with ties", {{kInts, {2, 6, 2}}}, one("axis", std::int64_t{-2})});
  }
  for (const OpDef* d : {&kAny, &kAll}) {
    t.push_back({d, "everything", {{kBools, {3, 4}}}});
    t.push_back({d, "middle", {{kBools, {2, 2, 4}}}, axes({1}, false)});
    t.push_back({d, "last kept", {{kBools, {5, 2}}}, axes({-1}, true)});
    t.push_back({d, "of nothing", {{kBools, {0, 3}}}, axes({0}, false)});
  }
}

}  // namespace trireme::op::testing
