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

int width_of(std::string_view text) {
  return static_cast<int>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string wrap_line(std::string_view line, int columns) {
  std::string out;
  while (width_of(line) > columns) {
    // The last space that the line may end before, or the first after a word that is too wide. Spaces at the
    // beginning are indentation.
    std::size_t cut = std::string_view::npos;
    for (std::size_t at = line.find(' ', line.find_first_not_of(' ')); at < line.size();
         at = line.find(' ', at + 1)) {
      if (cut != std::string_view::npos && width_of(line.substr(0, at)) > columns) break;
      cut = at;
    }
    if (cut == std::string_view::npos) break;
    out.append(line.substr(0, line.find_last_not_of(' ', cut) + 1));
    const std::size_t next = line.find_first_not_of(' ', cut);
    if (next == std::string_view::npos) return out;
    out += '\n';
    line.remove_prefix(next);
  }
  return out.append(line);
}

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
int stderr_columns() { return runtime::terminal_columns(runtime::StandardStream::kError); }

std::string wrap_lines(std::string_view text, int columns) {
  if (columns <= 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += wrap_line(text.substr(0, end), columns);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

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
