// How long sums through shared memory take (comm/direct.h), where ranks of this host have each other's
// mapped.
#pragma once

#include <optional>

#include "trireme/measure/link.h"

namespace trireme::measure {

// The name under which a calibration has it: priced as the rows that read peers' memory.
inline constexpr const char* kDirectName = "direct";

// Two ranks add vectors that lie in shared memory, each written anew before every sum. What the prices of
// one-shot and two-shot by reads need is taken from the fit: a round of signals is half of what an empty sum
// takes, and what additions (`reduce_seconds_per_byte`) do not explain of the time per byte is the copies.
// None: what.transport has no such memory.
Result<std::optional<cost::TransportCalibration>> measure_direct(const LinkMeasurement& what,
                                                                 double reduce_seconds_per_byte);

}  // namespace trireme::measure
