#include "trireme/agree/mechanism/meeting.h"

#include <algorithm>

namespace trireme::agree {

bool Attendance::is_complete() const {
  if (here_.empty()) return false;
  std::vector<bool> missing = gone_;
  missing.flip();
  for (const int worker : here_) missing[static_cast<std::size_t>(worker)] = false;
  return std::none_of(missing.begin(), missing.end(), [](bool m) { return m; });
}

}  // namespace trireme::agree
