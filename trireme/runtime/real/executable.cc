#include "trireme/runtime/real/executable.h"

#include <filesystem>
#include <system_error>

namespace trireme::runtime {

std::string executable_path() {
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failure);
  return failure ? std::string() : path.string();
}

}  // namespace trireme::runtime
