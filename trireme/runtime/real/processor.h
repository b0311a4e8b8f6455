// What this host's processor has.
#pragma once

namespace trireme::runtime {

// Width of the floating-point arithmetic that kernels use.
int vector_bits();

}  // namespace trireme::runtime
