// The symbolic half of the verifier: all ranks run at once on expression trees, and what they end with is
// compared with what the collective promises (contract.h).
#pragma once

#include "trireme/collective/verify_static.h"

namespace trireme::collective {

struct SymbolicRun {
  bool fixed_order;  // inputs are the partials of the fixed tree
  bool alias;        // buffer 1 is the same memory as buffer 0
  bool rendezvous;   // a send is done when its partner receives, not at once
};
// Programs that passed the static checks.
Status run_symbolically(Programs programs, const ScheduleSpec& spec, const SymbolicRun& run);

}  // namespace trireme::collective
