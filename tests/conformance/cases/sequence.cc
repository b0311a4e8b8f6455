// Embedding, attention and recurrent networks.
#include "tests/conformance/cases/cases.h"
#include "trireme/op/ops.h"

namespace trireme::op::testing {
using enum Fill;

void add_sequence(std::vector<OpCase>&) {}

}  // namespace trireme::op::testing
