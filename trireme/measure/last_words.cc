#include "trireme/measure/last_words.h"

#include "trireme/runtime/files.h"

namespace trireme::measure {
namespace {

constexpr TimeNs kLook = 100 * kMilli;
constexpr std::size_t kTailChars = 600;

// The last lines of a log, on one line.
std::string tail_of(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.size() > kTailChars) text.remove_prefix(text.size() - kTailChars);
  std::string line;
  for (const char c : text) line += c == '\n' ? std::string(" | ") : std::string(1, c);
  return line;
}

}  // namespace

runtime::Task<Status> with_last_words(runtime::Runtime& rt, std::vector<runtime::Process*> processes,
                                      std::string log_path, Status failure) {
  std::string how;
  for (runtime::Process* process : processes) {
    Result<runtime::ExitStatus> ended = co_await process->wait(rt.now() + kLook);
    if (ended.ok() && !ended->ok())
      how = ended->signal != 0 ? fmt::format("; a process died by signal {}", ended->signal)
                               : fmt::format("; a process ended with code {}", ended->code);
  }
  Result<Bytes> log = co_await rt.files().read(log_path);
  const std::string tail = log.ok() ? tail_of(as_text(*log)) : std::string();
  co_return Status(failure.code(),
                   fmt::format("{}{}{}{}", failure.message(), how, tail.empty() ? "" : ": ", tail));
}

}  // namespace trireme::measure
