#include "trireme/cli/terminal.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "trireme/cli/command.h"
#include "trireme/runtime/real/terminal.h"

namespace trireme::cli {
namespace {

constexpr TimeNs kPlainStatus = 2 * kSecond;  // between lines where nothing can be drawn over

std::string_view or_empty(const char* text) { return text == nullptr ? "" : text; }

bool has_utf8(const std::function<const char*(const char*)>& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string locale(or_empty(environment(name)));
    if (locale.empty()) continue;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

Terminal describe_terminal(bool is_terminal, const std::function<const char*(const char*)>& environment) {
  Terminal t;
  const std::string_view kind = or_empty(environment("TERM"));
  t.redraws = is_terminal && !kind.empty() && kind != "dumb";
  t.blocks = has_utf8(environment);
  return t;
}

Terminal stderr_terminal() {
  using runtime::StandardStream;
  Terminal t = describe_terminal(runtime::is_terminal(StandardStream::kError), environment);
  t.columns = [] { return runtime::terminal_columns(StandardStream::kError); };
  t.write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  return t;
}

int stdout_columns() { return runtime::terminal_columns(runtime::StandardStream::kOutput); }

std::string draw_bar(double fraction, int cells, bool blocks) {
  static constexpr const char* kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * cells * 8);
  std::string bar = blocks ? "│" : "[";
  int drawn = 0;
  for (; drawn < eighths / 8; ++drawn) bar += blocks ? "█" : "#";
  if (blocks && eighths % 8 != 0) bar += kParts[eighths % 8], ++drawn;
  bar.append(static_cast<std::size_t>(std::max(0, cells - drawn)), ' ');
  return bar + (blocks ? "│" : "]");
}

StatusLine::StatusLine(Terminal terminal, std::function<TimeNs()> now)
    : terminal_(std::move(terminal)), now_(std::move(now)), last_(now_()) {}

StatusLine::~StatusLine() { clear(); }

void StatusLine::show(const std::string& text) {
  if (!terminal_.redraws) {
    if (now_() - last_ < kPlainStatus) return;
    last_ = now_();
    terminal_.write(text + "\n");
    return;
  }
  const int columns = terminal_.columns();
  const std::size_t room = columns > 1 ? static_cast<std::size_t>(columns - 1) : text.size();
  terminal_.write("\r" + text.substr(0, room) + "\x1b[K");
  dirty_ = true;
}

void StatusLine::clear() {
  if (dirty_) terminal_.write("\r\x1b[K");
  dirty_ = false;
}

}  // namespace trireme::cli
