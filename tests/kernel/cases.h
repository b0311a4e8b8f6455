// Inputs for kernel rows: op, operand shapes, attributes. The conformance tests fail for a row that none of
// them reaches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/op/op.h"

namespace trireme::kernel::test {

// An operand that is not like the others.
struct Special {
  DType dtype = DType::kF32;        // whatever the dtype of the others, unless it is `positive`
  std::int64_t low = 0, limit = 0;  // integers: from `low` to below `limit`
  bool positive = false;            // from 0.5 to 1.5, in the dtype of the others
};

struct Case {
  std::string op;
  std::vector<Shape> inputs;
  op::Attrs attrs;
  DType dtype = DType::kF32;            // of every input
  std::map<int, Special> special = {};  // but of these, by their index
  std::string forms = {};               // as op::to_text; empty: plain
  std::string to_string() const;
};

std::vector<Case> all_cases();
void add_net_cases(std::vector<Case>& out);     // those of net_cases.cc, which are among all_cases()
void add_formed_cases(std::vector<Case>& out);  // those of formed_cases.cc, likewise

}  // namespace trireme::kernel::test
