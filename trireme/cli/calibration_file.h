// Where a command's calibration comes from: --calibration FILE, or what `trireme calibrate` stored.
#pragma once

#include <optional>
#include <string>

#include "trireme/cost/calibration.h"
#include "trireme/runtime/runtime.h"

namespace trireme::cli {

// $XDG_STATE_HOME/trireme or ~/.local/state/trireme; empty when neither is set.
std::string state_dir();
// state_dir()/calibration.json; empty: no such folder.
std::string calibration_path();

// Where measured kernels are remembered: $TRIREME_KERNELS, or state_dir()/kernels.json ("": nowhere).
// Nothing: TRIREME_KERNELS is "default", and kernels are not measured.
std::optional<std::string> kernel_cache_path();
// Where compiled GPU kernels are kept: $TRIREME_GPU_KERNELS, or state_dir()/gpu_kernels.bin. Empty: nowhere
// (there is no such folder, or TRIREME_GPU_KERNELS is "none").
std::string text_cache_path();

// `path` empty: the stored one, none when there is no such file. A file that is named must be there.
runtime::Task<Result<std::optional<cost::Calibration>>> read_calibration(runtime::Runtime& rt,
                                                                         std::string path);

}  // namespace trireme::cli
