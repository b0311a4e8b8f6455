// What is assumed of a host that nobody has calibrated.
#pragma once

#include "trireme/cost/rates.h"

namespace trireme::cost {

// `vector_bits`: the width of the processor's floating-point arithmetic. With 512 a core is faster than the
// models' default.
void assume_processor(int vector_bits, Rates& rates);

}  // namespace trireme::cost
