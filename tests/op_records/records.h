// Outputs and gradients recorded from PyTorch and NumPy (tests/op_records/record.py): which cases can have a
// record, and what a record holds of a tensor.
#pragma once

#include <string>

#include "tests/conformance/op_cases.h"
#include "trireme/base/json.h"

namespace trireme::op::testing {

// Cases with a reference kernel that can run in f64.
bool is_recordable(const OpCase& c);
// Changes when the inputs or attributes of a case do: a record made before is then stale.
std::string input_key(const OpCase& c);
// The gradients recorded are those of sum_k <output_weights(type k, k), output k> over floating outputs.
Tensor output_weights(const TensorType& type, std::size_t k);
// What is kept of a tensor: {"shape", "first": at most 16 elements, "folded": sum_i e_i (((37 i + 11) mod
// 101) / 50 - 1)}.
double folded(const std::vector<double>& values);

}  // namespace trireme::op::testing
