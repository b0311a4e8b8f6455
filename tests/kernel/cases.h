// Inputs for kernel rows: op, operand shapes, attributes. The conformance tests fail for a row that none of
// them reaches.
#pragma once

#include <string>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::kernel::test {

struct Case {
  std::string op;
  std::vector<Shape> inputs;
  op::Attrs attrs;
  DType dtype = DType::kF32;  // of every input
  std::string to_string() const;
};

std::vector<Case> all_cases();
void add_net_cases(std::vector<Case>& out);  // those of net_cases.cc, which are among all_cases()

}  // namespace trireme::kernel::test
