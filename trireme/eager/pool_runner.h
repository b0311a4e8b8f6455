// A CallRunner with threads of its own, for programs that have no Runtime: the compute pool of the real
// Runtime without its loop.
#pragma once

#include <memory>

#include "trireme/eager/call_runner.h"

namespace trireme::eager {

// `num_threads` at least 1; 0: as many as the machine has cores. Lives longer than the Contexts that use it;
// may serve several, each from its own thread.
std::unique_ptr<CallRunner> make_pool_runner(int num_threads = 0);

}  // namespace trireme::eager
