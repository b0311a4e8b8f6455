#include "trireme/cli/command.h"

#include <cstdio>
#include <cstdlib>

namespace trireme::cli {

const char* environment(const char* name) { return std::getenv(name); }

int exit_code_of(const Status& status) {
  if (status.ok()) return kExitOk;
  return status.code() == Code::kInvalid ? kExitUsage : kExitFailed;
}

int print_error(const Status& status) {
  std::fputs(fmt::format("error: {}\n", status.message()).c_str(), stderr);
  return exit_code_of(status);
}

}  // namespace trireme::cli
