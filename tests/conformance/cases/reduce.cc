// Reductions.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_reduce(std::vector<OpCase>& t) {
  for (const OpDef* d : {&kSum, &kMean, &kMax}) {
    t.push_back({d, "all", {{kDistinct, {3, 4}}}});
    t.push_back({d, "middle", {{kDistinct, {2, 3, 4}}}, axes({1}, false)});
    t.push_back({d, "outer kept", {{kDistinct, {2, 3, 4}}}, axes({0, -1}, true)});
    t.push_back({d, "one element", {{kDistinct, {1}}}});
    t.push_back({d, "scalar", {{kDistinct, {}}}});
    t.push_back({d, "empty result", {{kDistinct, {0, 3}}}, axes({1}, false)});
  }
  t.push_back({&kSum, "nothing to add", {{kReal, {0, 3}}}, axes({0}, false)});
  t.push_back({&kSum, "integers", {{kInts, {3, 3}}}, axes({0}, false)});
  t.push_back({&kMax, "integers", {{kInts32, {3, 3}}}, axes({0}, false)});
  t.push_back({&kArgmax, "last", {{kDistinct, {3, 4}}}});
  t.push_back(
      {&kArgmax, "first kept", {{kDistinct, {3, 4}}}, {{"axis", std::int64_t{0}}, {"keep_dims", true}}});
  t.push_back({&kArgmax, "middle with ties", {{kInts, {2, 6, 2}}}, one("axis", std::int64_t{-2})});
}

}  // namespace trireme::op::testing
