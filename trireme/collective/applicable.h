// Usual answers to the question whether an algorithm is applicable.
#pragma once

#include "trireme/collective/schedule.h"

namespace trireme::collective {

inline Status any_spec(const ScheduleSpec&) { return {}; }
Status one_input_per_rank(const ScheduleSpec& spec);  // no leaf runs

}  // namespace trireme::collective
