#include "trireme/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace trireme::internal {

void check_failed(const char* path, int line, const char* condition, const std::string& message) {
  // Files that are compiled together are included by relative paths.
  std::string_view file = path;
  if (const std::size_t at = file.rfind("../"); at != file.npos) file.remove_prefix(at + 3);
  const std::string text = fmt::format("{}:{}: invariant broken: {}{}{}\n", file, line, condition,
                                       message.empty() ? "" : ": ", message);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace trireme::internal
