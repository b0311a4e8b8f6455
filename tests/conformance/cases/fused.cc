// Groups made by the fusion passes.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_fused(std::vector<OpCase>&) {}

}  // namespace trireme::op::testing
