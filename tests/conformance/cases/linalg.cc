// Matrices.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_linalg(std::vector<OpCase>& t) {
  t.push_back({&kMatmul, "plain", {{kReal, {3, 4}}, {kReal, {4, 5}}}});
  t.push_back({&kMatmul, "a transposed", {{kReal, {4, 3}}, {kReal, {4, 5}}}, transposes(true, false)});
  t.push_back({&kMatmul, "b transposed", {{kReal, {3, 4}}, {kReal, {5, 4}}}, transposes(false, true)});
  t.push_back({&kMatmul, "both transposed", {{kReal, {4, 3}}, {kReal, {5, 4}}}, transposes(true, true)});
  t.push_back({&kMatmul, "one element", {{kReal, {1, 1}}, {kReal, {1, 1}}}});
  t.push_back({&kMatmul, "no rows", {{kReal, {0, 4}}, {kReal, {4, 5}}}});
  t.push_back({&kMatmul, "nothing to add", {{kReal, {3, 0}}, {kReal, {0, 2}}}});
  t.push_back({&kMatmul, "batch", {{kReal, {4, 2, 3}}, {kReal, {4, 3, 2}}}});
  t.push_back({&kMatmul, "batch by one", {{kReal, {3, 2, 3}}, {kReal, {4, 3}}}, transposes(false, true)});
  t.push_back({&kMatmul, "one by batch", {{kReal, {3, 2}}, {kReal, {2, 3, 2}}}, transposes(true, false)});
  t.push_back({&kMatmul, "batches broadcast both ways", {{kReal, {2, 1, 2, 3}}, {kReal, {3, 3, 1}}}});
  t.push_back({&kMatmul, "empty batch", {{kReal, {0, 2, 3}}, {kReal, {3, 2}}}});
  t.push_back({&kMatmul, "many columns", {{kReal, {2, 3}}, {kReal, {3, 70}}}});
  for (const OpDef* d : {&kInverse, &kDeterminant}) {
    t.push_back({d, "matrix", {{kRegular, {3, 3}}}});
    t.push_back({d, "pivots", {{kDistinct, {4, 4}}}});
    t.push_back({d, "batches", {{kRegular, {2, 3, 2, 2}}}});
    t.push_back({d, "one element", {{kPositive, {1, 1}}}});
    t.push_back({d, "no rows", {{kReal, {2, 0, 0}}}});
    t.push_back({d, "no matrices", {{kReal, {0, 3, 3}}}});
  }
}

}  // namespace trireme::op::testing
