#include "trireme/runtime/real/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace trireme::runtime {

bool is_terminal(StandardStream stream) { return isatty(static_cast<int>(stream)) == 1; }

int terminal_columns(StandardStream stream) {
  winsize size{};
  if (!is_terminal(stream) || ::ioctl(static_cast<int>(stream), TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace trireme::runtime
