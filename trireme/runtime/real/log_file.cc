#include "trireme/runtime/real/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace trireme::runtime {

Result<std::function<void(std::string_view)>> make_log_file(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0)
    return error(Code::kUnavailable, "[files] cannot open the log '{}': {}", path, std::strerror(errno));
  const std::shared_ptr<void> closer(nullptr, [fd](void*) { close(fd); });
  return std::function<void(std::string_view)>([fd, closer](std::string_view line) {
    const std::string text = fmt::format("{}\n", line);
    if (write(fd, text.data(), text.size()) < 0) return;
  });
}

}  // namespace trireme::runtime
