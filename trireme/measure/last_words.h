// Why a process that is measured failed, for whoever reads the error.
#pragma once

#include <string>
#include <vector>

#include "trireme/runtime/processes.h"
#include "trireme/runtime/runtime.h"

namespace trireme::measure {

// `failure` with how the processes ended and the end of what they wrote. A short wait lets a dying one die.
runtime::Task<Status> with_last_words(runtime::Runtime& rt, std::vector<runtime::Process*> processes,
                                      std::string log_path, Status failure);

}  // namespace trireme::measure
