// Where the running program lies, to find what was installed beside it.
#pragma once

#include <string>

namespace trireme::runtime {

// Path of the running binary; "" when the system does not say.
std::string executable_path();

}  // namespace trireme::runtime
