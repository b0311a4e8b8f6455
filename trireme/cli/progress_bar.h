// What a person sees while a job runs: one line that redraws itself on a terminal, a few plain lines
// elsewhere.
#pragma once

#include <memory>

#include "trireme/train/worker.h"

namespace trireme::cli {

// Writes to standard error. `terminal`: redraw in place. `verbose`: now and then a line for each worker.
std::unique_ptr<train::Progress> make_progress_bar(bool terminal, bool verbose = false);
bool stderr_is_terminal();

// "57 %  [#########.......]"-like bar of `width` cells.
std::string draw_bar(double fraction, int width);

}  // namespace trireme::cli
