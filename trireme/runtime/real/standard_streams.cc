#include "trireme/runtime/real/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "trireme/runtime/real/fd.h"

namespace trireme::runtime {

void take_closed_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() takes the lowest number that is free. The wrong direction: reading and writing stay failures.
    const int taken = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (taken > STDERR_FILENO) ::close(taken);
  }
}

Status flush_standard_output() {
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed_before) return {};
  if (errno != 0) return real::system_error("files", "write standard output", errno);
  return error(Code::kUnavailable, "[files] cannot write standard output: a part of it is lost");
}

}  // namespace trireme::runtime
