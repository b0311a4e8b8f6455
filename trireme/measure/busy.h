// What cores do while others are busy: clocks fall, caches and memory are shared.
#pragma once

#include "trireme/cost/calibration.h"

namespace trireme::measure {

// Products of matrices and copies by 1, 2, 4... and all cores of this process, each with memory of its own.
// Runs threads; takes a fraction of a second each.
Status measure_busy(bool quick, cost::Calibration& calibration);

}  // namespace trireme::measure
