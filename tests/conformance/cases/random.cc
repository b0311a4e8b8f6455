// Random ops.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_random(std::vector<OpCase>& t) {
  const Attrs half{{"rate", 0.5}, {"stream", std::int64_t{3}}};
  t.push_back({&kDropout, "images", {{kReal, {4, 2, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {4}}}, half});
  t.push_back({&kDropout,
               "rate zero",
               {{kReal, {4, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {4}}},
               {{"rate", 0.0}, {"stream", std::int64_t{0}}}});
  t.push_back({&kDropout, "no samples", {{kReal, {0, 3}}, {kInts, {}}, {kInts, {}}, {kIds, {0}}}, half});
}

}  // namespace trireme::op::testing
