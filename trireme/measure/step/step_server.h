// A process that trains for `trireme bench train`: the trainer's own path (prepare, Replica), one step when
// it is asked for. Lines over a local stream:
//
//   child  -> driver  "ready TEXT\n" or "error TEXT\n"
//   driver -> child   "steps N\n"    -> "times NS NS ...\n", one per step
//                     "memory\n"     -> "memory BYTES\n"
//                     "profile N\n"  -> "profile JSON\n": where the time of N steps goes
//                     "gaps N\n"     -> "gaps JSON\n": on a GPU, how long it waits between launches
//                     "kernels\n"    -> "kernels JSON\n": the best of every heavy kernel of a step, alone
//                     "quit\n"
// bench/peers/torch_steps.py speaks the first two.
#pragma once

#include <optional>
#include <string>

#include "trireme/runtime/runtime.h"

namespace trireme::measure {

struct StepServerOptions {
  std::string driver;  // socket
  std::string workload, dtype = "f32", device = "cpu";
  bool quick = false;
  std::optional<std::string> kernel_cache = {};  // prepare::with_measured_kernels; nothing: none are measured
  // Nodes are timed and updates come after backward, so that their times do not overlap.
  bool profile = false;
};
runtime::Task<Status> serve_steps(runtime::Runtime& rt, StepServerOptions options);

}  // namespace trireme::measure
