// Child processes by fork and exec, watched through pidfds.
#pragma once

#include <memory>

#include "trireme/runtime/processes.h"
#include "trireme/runtime/real/loop.h"

namespace trireme::runtime::real {

// A child is killed when the thread that spawned it ends (PR_SET_PDEATHSIG), so it never outlives the loop
// that watches it.
std::unique_ptr<Processes> make_real_processes(Runtime& rt, Loop& loop);

}  // namespace trireme::runtime::real
