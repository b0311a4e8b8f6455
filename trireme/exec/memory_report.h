// MemoryReport: what one Execution holds while it runs, by part, known before it runs. A value.
//
// Nothing is allocated during a run, so this is the peak. Not in it: the state that kernels prepared when the
// graph was compiled (shared by all Executions of it).
#pragma once

#include <cstdint>
#include <string>

namespace trireme::exec {

struct MemoryReport {
  // The arena, in two parts: what the values need, and what the workspaces of kernels add to it. With phases
  // it holds only values that outlive one, and no workspaces.
  std::int64_t values_bytes = 0, workspace_bytes = 0;
  std::int64_t scratch_bytes = 0;    // counted for each Execution, though several may share it
  std::int64_t variables_bytes = 0;  // shared with every run over the same container
  std::int64_t feeds_bytes = 0;      // the caller's
  std::int64_t bound_bytes = 0;      // outputs in the caller's memory
  std::int64_t results_bytes = 0;    // copies of fetched tensors that a Session hands out

  std::int64_t arena_bytes() const { return values_bytes + workspace_bytes; }
  std::int64_t total_bytes() const {
    return arena_bytes() + scratch_bytes + variables_bytes + feeds_bytes + bound_bytes + results_bytes;
  }
  std::string to_text() const;  // one line per part and the total
};

}  // namespace trireme::exec
