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
}

}  // namespace trireme::op::testing
