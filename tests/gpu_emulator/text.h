// Turns CUDA C++ into C++ of the host, as far as macros (words.h) cannot.
#pragma once

#include <string>

namespace gpu_emulator {

// `text` with dynamic shared memory, PTX and entries rewritten; words.h comes before it.
std::string to_host_text(const std::string& text);

}  // namespace gpu_emulator
