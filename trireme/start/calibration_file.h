// What this host was measured to do: a file by name, or what `trireme calibrate` stored.
#pragma once

#include <optional>
#include <string>

#include "trireme/cost/calibration.h"
#include "trireme/runtime/runtime.h"
#include "trireme/start/places.h"

namespace trireme::start {

// `path` empty: the stored one, none when there is no such file. A file that is named must be there. Op times
// that are of another processor or of other kernels are left out, which costs a line in the log.
runtime::Task<Result<std::optional<cost::Calibration>>> read_calibration(runtime::Runtime& rt, Places places,
                                                                         std::string path);

}  // namespace trireme::start
