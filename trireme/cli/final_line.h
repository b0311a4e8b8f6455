// The headline of a run: what came out, in how many steps and how long, and where it lies.
#pragma once

#include <string>

#include "trireme/base/json.h"

namespace trireme::cli {

// The last line of a run, from its summary.json.
std::string final_line(const Json& summary, const std::string& run_dir);

}  // namespace trireme::cli
