// last_lines: what a run says last, below its result: notes, and that the model has not learned.
#pragma once

#include <string>

#include "trireme/base/json.h"

namespace trireme::cli {

// `summary` as in summary.json. A line each; empty where there is nothing to say. `quiet`: warnings only.
std::string last_lines(const Json& summary, bool quiet);

}  // namespace trireme::cli
