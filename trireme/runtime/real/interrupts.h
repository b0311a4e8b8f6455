// SIGINT, SIGTERM and SIGHUP as callbacks of a loop. Signals belong to the process, so this is the one place
// with process-wide state: while any Interrupts exists a handler rings every one of them; with the last one
// the old actions come back. SIGHUP counts where it is the first of them in the life of the process; it is
// not heard where it was ignored before (nohup), and ignored once somebody has asked.
//
// One request to stop may come as several signals, and they count as one: timeout(1) signals its child and
// then its group, and a batch system signals launcher and ranks, to whom the launcher passes it on. So a
// signal is part of the last request when it comes within 250 ms of that, or within 5 s where one of the two
// came from the parent process and the other did not. This holds after the last Interrupts too: what has
// asked a process to save does not also end it.
#pragma once

#include <memory>

#include "trireme/runtime/real/loop.h"

namespace trireme::runtime::real {

class Interrupts {
 public:
  virtual ~Interrupts() = default;
};

// `fn` runs on the loop once per request.
std::unique_ptr<Interrupts> make_interrupts(Loop& loop, Callback fn);

}  // namespace trireme::runtime::real
