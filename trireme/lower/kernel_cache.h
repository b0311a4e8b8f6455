// What was measured about kernels, in a JSON file that later runs read: choices by a text that says all they
// depend on.
#pragma once

#include <map>
#include <string>

#include "trireme/runtime/runtime.h"

namespace trireme::lower {

using KernelChoices = std::map<std::string, std::string>;

// Nothing where there is no file, or where it cannot be used, which costs a line in the log.
runtime::Task<KernelChoices> read_choices(runtime::Runtime& rt, std::string path);
runtime::Task<void> write_choices(runtime::Runtime& rt, std::string path, KernelChoices choices);

// Whose figures these are: the processor and the library of kernels.
runtime::Task<std::string> machine_text(runtime::Runtime& rt);

}  // namespace trireme::lower
