// The symbolic half of the verifier: all ranks run at once on expression trees, and what they end with is
// compared with what the collective promises.
#pragma once

#include "trireme/collective/verify_static.h"

namespace trireme::collective {

// Programs that passed the static checks. `alias`: buffer 1 is the same memory as buffer 0.
Status run_symbolically(Programs programs, const ScheduleSpec& spec, bool fixed_order, bool alias);

}  // namespace trireme::collective
