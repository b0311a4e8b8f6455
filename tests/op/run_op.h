// Runs one op on its reference kernel.
#pragma once

#include <cstring>
#include <vector>

#include "trireme/op/forms.h"

namespace trireme::op::testing {

// Infers, allocates poisoned outputs and runs the reference kernel. Host ops and feeds yield phantoms. The
// output of a mutating op is its input 0.
inline Result<std::vector<Tensor>> run_op(const OpDef& def, const std::vector<Tensor>& inputs,
                                          const Attrs& attrs, const Forms& forms = plain_forms()) {
  TR_ASSIGN_OR_RETURN(const Attrs complete, complete_attrs(def, attrs));
  std::vector<TensorType> types;
  for (const Tensor& t : inputs) types.push_back(t.type());
  TR_ASSIGN_OR_RETURN(const std::vector<TensorType> out_types, infer_types(def, types, complete, forms));
  std::vector<Tensor> outputs;
  if (!def.mutated_inputs.empty()) {
    TR_CHECK(out_types.size() == 1 && out_types[0] == types[0], "op {}: the output must be input 0",
             def.name);
    outputs.push_back(inputs[0]);
  } else {
    Device& device = def.reference ? cpu_device() : phantom_device();
    for (const TensorType& t : out_types) {
      TR_ASSIGN_OR_RETURN(Tensor out, Tensor::allocate(device, t));
      if (out.raw() != nullptr) std::memset(out.raw(), 0xFF, t.num_bytes());  // NaN, or -1
      outputs.push_back(std::move(out));
    }
  }
  if (def.reference) {
    const ReferenceKernel kernel = reference_kernel({def, types, out_types, complete, /*width=*/1, forms});
    std::vector<std::byte> workspace(kernel.workspace_bytes);
    KernelArgs args{inputs, outputs, complete, workspace, serial(), kernel.state.get()};
    kernel.run(args);
  }
  return outputs;
}

}  // namespace trireme::op::testing
