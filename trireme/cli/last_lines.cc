#include "trireme/cli/last_lines.h"

#include <fmt/format.h>

namespace trireme::cli {

std::string last_lines(const Json& s, bool quiet) {
  std::string text;
  const Json notes = s.value("notes", Json::array());
  if (!quiet)
    for (const Json& note : notes) text += fmt::format("note: {}\n", note.get<std::string>());
  const Json learned = s.value("learned", Json());
  if (!learned.is_boolean() || learned.get<bool>()) return text;
  return text + fmt::format("warning: the model has not learned: {}; {}\n", s.value("learned_reason", ""),
                            s.value("learned_advice", ""));
}

}  // namespace trireme::cli
