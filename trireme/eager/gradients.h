// Gradients from the tape: reverse accumulation through the gradient functions of the OpDefs, as graph's
// add_gradients, in the same order of additions, so with the same bits.
#pragma once

#include <span>
#include <vector>

#include "trireme/eager/array.h"

namespace trireme::eager {

struct GradientOptions {
  bool create_graph = false;  // record the gradients too, for gradients of gradients
};

// d loss / d wrt[i]; zeros where the loss does not depend on it. `wrt`: parameters, watched leaves, or values
// computed from them. Poisoned on failure: a loss that is no floating scalar, an op without gradient on the
// way, a value that was changed in place after it was used.
std::vector<Array> gradients(const Array& loss, std::span<const Array> wrt, GradientOptions options = {});

// Array::backward.
void backward(const Array& loss, bool create_graph);

}  // namespace trireme::eager
