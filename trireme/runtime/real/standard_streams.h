// Standard input, output and error of a program.
#pragma once

#include "trireme/base/status.h"

namespace trireme::runtime {

// First in main(): those that the caller closed are taken, so that no file or socket of ours gets their
// numbers and what is printed. Writing to a closed one still fails.
void take_closed_streams();

// Last in main(): whether all that was printed on standard output arrived.
Status flush_standard_output();

}  // namespace trireme::runtime
