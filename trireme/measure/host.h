// How fast one core of this host adds vectors, copies memory and multiplies matrices.
#pragma once

#include "trireme/cost/calibration.h"
#include "trireme/runtime/runtime.h"
#include "trireme/runtime/task.h"

namespace trireme::measure {

// Fills machine, reduce_seconds_per_byte and reduce_spread. Times come from the Runtime's clock; everything
// runs on the calling thread.
Status measure_host(const runtime::Runtime& rt, bool quick, cost::Calibration& calibration);

// Fills host_bytes_per_second: what all cores copy at the same time, on the Runtime's pool.
runtime::Task<void> measure_memory(runtime::Runtime& rt, bool quick, cost::Calibration& calibration);

}  // namespace trireme::measure
