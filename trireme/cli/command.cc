#include "trireme/cli/command.h"

#include <cstdio>
#include <cstdlib>

namespace trireme::cli {

const char* environment(const char* name) { return std::getenv(name); }

start::Places places() { return start::usual_places(environment); }

// An area stands at the beginning, or after a place ("job.toml:3:9: ") or another message (": ").
std::string without_areas(std::string_view message) {
  std::string shown;
  for (std::size_t at = 0; at < message.size(); ++at) {
    const bool may_begin = at == 0 || shown.ends_with(": ");
    if (may_begin && message[at] == '[') {
      const std::size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at + 1);
      if (end != std::string_view::npos && end > at + 1 && message.substr(end).starts_with("] ")) {
        at = end + 1;
        continue;
      }
    }
    shown += message[at];
  }
  return shown;
}

int print_error(const Status& status) {
  std::fputs(fmt::format("error: {}\n", without_areas(status.message())).c_str(), stderr);
  return exit_code_of(status);
}

}  // namespace trireme::cli
