#include "trireme/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace trireme::internal {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const std::string text = fmt::format("{}:{}: invariant broken: {}{}{}\n", file, line, condition,
                                       message.empty() ? "" : ": ", message);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace trireme::internal
