// Timers of a loop: an indexed binary heap over reused slots, so that setting and cancelling allocate nothing
// once warm and a cancelled deadline leaves nothing behind. Single-threaded.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/base/function.h"
#include "trireme/base/units.h"
#include "trireme/runtime/runtime.h"

namespace trireme::runtime::real {

class Timers {
 public:
  TimerId add(TimeNs when, Callback fn);
  void cancel(TimerId id);  // unknown and fired ids are ignored

  bool empty() const { return heap_.empty(); }
  TimeNs next_due() const { return heap_.empty() ? kForever : slots_[heap_[0]].when; }

  // Runs what is due at `now`, earliest first, ties in order of creation; not what the callbacks add
  // meanwhile, so that a timer that sets itself again does not starve the loop. True when something ran.
  bool run_due(TimeNs now);

  // Cancels every timer; the callbacks go to `into`, to die where their destructors may use timers again.
  void take_all(std::vector<Callback>& into);

 private:
  struct Slot {
    Callback fn;
    TimeNs when = 0;
    std::uint64_t sequence = 0;    // order of creation
    std::uint32_t generation = 0;  // tells a reused slot from the timer an old id meant
    std::uint32_t position = 0;    // in heap_
  };

  bool before(std::uint32_t a, std::uint32_t b) const;
  void place(std::uint32_t slot, std::size_t position);
  void sift_up(std::size_t position);
  void sift_down(std::size_t position);
  void remove(std::uint32_t slot);

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> heap_, free_;
  std::uint64_t next_sequence_ = 1;
};

}  // namespace trireme::runtime::real
