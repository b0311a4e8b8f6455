// Places: where a host keeps what outlives a run, and what does not outlive it.
#pragma once

#include <optional>
#include <string>

#include "trireme/launch/environment.h"

namespace trireme::start {

struct Places {
  std::string cache_dir;          // of data that was read; empty: nowhere
  std::string state_dir;          // of what was measured; empty: nowhere
  std::string temp_dir = "/tmp";  // of a run's sockets and logs
  // The file of measured kernels ("": nowhere). Nothing: kernels are not measured.
  std::optional<std::string> kernel_cache = std::nullopt;
  std::string text_cache;  // the file of compiled GPU kernels; empty: nowhere

  // What `trireme calibrate` stored; empty: there is no state_dir.
  std::string calibration() const { return state_dir.empty() ? "" : state_dir + "/calibration.json"; }
};

// Where the command `trireme` keeps them:
//   cache_dir     $XDG_CACHE_HOME/trireme or ~/.cache/trireme
//   state_dir     $XDG_STATE_HOME/trireme or ~/.local/state/trireme
//   temp_dir      $TMPDIR
//   kernel_cache  $TRIREME_KERNELS ("default": nothing) or kernels.json in state_dir
//   text_cache    $TRIREME_GPU_KERNELS ("none": nowhere) or gpu_kernels.bin in state_dir
Places usual_places(const launch::Lookup& get);

}  // namespace trireme::start
