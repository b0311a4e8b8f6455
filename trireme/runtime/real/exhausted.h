// What happens when the operating system gives a process no more memory, threads or descriptors. Where a
// Status can travel the failure is one (kExhausted); this is for the rest: constructors, and operator new.
#pragma once

#include <stdexcept>

namespace trireme::runtime {

// Thrown by make_real_runtime: this process may not have the descriptors or threads of a loop and a pool.
class CannotStart : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// For main() of a program, first: memory that operator new cannot get, and exceptions of exhaustion that
// nobody catches, end the process with a line "error: ..." on standard error and `exit_code` instead of
// SIGABRT. Exceptions of any other kind still abort: they are mistakes of ours.
void end_plainly_when_exhausted(int exit_code);

}  // namespace trireme::runtime
