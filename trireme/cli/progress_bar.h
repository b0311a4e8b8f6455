// What a person sees while a job runs: one line that redraws itself on a terminal, a few plain lines
// elsewhere.
#pragma once

#include <memory>
#include <optional>

#include "trireme/cli/terminal.h"
#include "trireme/record/progress.h"

namespace trireme::cli {

// `verbose`: a line for each worker every 5 s.
std::unique_ptr<record::Progress> make_progress_bar(Terminal terminal, bool verbose = false);

struct ProgressView {
  std::int64_t epoch = 1, epochs = 1;
  double fraction = 0;             // of the run
  double loss = 0;                 // of the last steps
  std::optional<double> accuracy;  // of the last steps
  double samples_per_second = 0;   // 0: not known yet
  double seconds_left = 0;         // below 1: not worth showing
};
// One line of at most `columns` - 1 columns (0: as long as it likes). Where it is too narrow, the samples per
// second go first, then the time left, the bar, the epoch, the accuracy.
std::string progress_line(const ProgressView& view, int columns, bool blocks);

}  // namespace trireme::cli
