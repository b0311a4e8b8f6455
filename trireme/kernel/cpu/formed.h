// Which forms of operands rows take (op::Forms), and the operands as such rows see them.
#pragma once

#include <algorithm>

#include "trireme/op/forms.h"

namespace trireme::kernel {

// Operands of other dtypes, or in another order, than the op has.
inline bool takes_formed(const op::Forms& forms) { return !forms.is_plain(); }
// Operands with the channels last, of the dtypes of the op or of others.
inline bool takes_channels_last(const op::Forms& forms) {
  const auto last = [](const op::Form& form) { return form.order == op::Order::kChannelsLast; };
  return std::any_of(forms.inputs.begin(), forms.inputs.end(), last) ||
         std::any_of(forms.outputs.begin(), forms.outputs.end(), last);
}

}  // namespace trireme::kernel
