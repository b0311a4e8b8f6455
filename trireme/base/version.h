// Which Trireme this is. Both texts are fixed when the build is configured (cmake/layers.cmake).
#pragma once

#include <string>

namespace trireme {

// The project's version in CMakeLists.txt, such as "0.1.0".
const char* version();

// The commit (with "-dirty" when files had changed) and the compiler, such as "7156982c, gcc 12.2.0". Without
// git the commit is "unknown".
std::string build_id();

}  // namespace trireme
