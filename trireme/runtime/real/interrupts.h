// SIGINT, SIGTERM and SIGHUP as callbacks of a loop. Signals belong to the process, so this is the one place
// with process-wide state: while any Interrupts exists a handler rings every one of them; with the last one
// the old actions come back. SIGHUP counts where it is the first of them in the life of the process; it is
// not heard where it was ignored before (nohup), and ignored once somebody has asked.
#pragma once

#include <memory>

#include "trireme/runtime/real/loop.h"

namespace trireme::runtime::real {

class Interrupts {
 public:
  virtual ~Interrupts() = default;
};

// `fn` runs on the loop once per signal (signals that arrive together may count as one).
std::unique_ptr<Interrupts> make_interrupts(Loop& loop, Callback fn);

}  // namespace trireme::runtime::real
