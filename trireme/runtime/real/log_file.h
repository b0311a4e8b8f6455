// A log sink that appends lines to a file.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "trireme/base/status.h"

namespace trireme::runtime {

// For RealOptions::log_sink. Each line is one write; a full disk loses log lines, never the run.
Result<std::function<void(std::string_view)>> make_log_file(const std::string& path);

}  // namespace trireme::runtime
