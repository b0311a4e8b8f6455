// Ops that write variables.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_update(std::vector<OpCase>& t) {
  t.push_back({&kApplySgd, "plain", {{kReal, {3, 4}}, {kReal, {3, 4}}, {kPositive, {}}}});
  t.push_back({&kApplySgd, "decay", {{kReal, {5}}, {kReal, {5}}, {kPositive, {}}}, one("weight_decay", 0.1)});
  t.push_back(
      {&kApplyMomentum, "plain", {{kReal, {3, 4}}, {kReal, {3, 4}}, {kReal, {3, 4}}, {kPositive, {}}}});
  t.push_back({&kApplyMomentum,
               "nesterov decay",
               {{kReal, {5}}, {kReal, {5}}, {kReal, {5}}, {kPositive, {}}},
               {{"momentum", 0.8}, {"weight_decay", 0.1}, {"nesterov", true}}});
  for (const OpDef* d : {&kAssign, &kAssignAdd}) {
    t.push_back({d, "matrix", {{kReal, {3, 4}}, {kReal, {3, 4}}}});
    t.push_back({d, "integers", {{kInts, {}}, {kInts, {}}}});
    t.push_back({d, "empty", {{kReal, {0}}, {kReal, {0}}}});
  }
}

}  // namespace trireme::op::testing
