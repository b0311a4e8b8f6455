// What is told after the final line of a run with several workers: where their time went.
#pragma once

#include <string>

#include "trireme/base/json.h"

namespace trireme::cli {

// The table of workers from a summary.json; empty for one worker. It fits into `columns` (0: as wide as it
// likes).
std::string final_table(const Json& summary, int columns = 0);

// The lines of it that are about stages; empty where the job has none.
std::string pipeline_lines(const Json& summary);

}  // namespace trireme::cli
