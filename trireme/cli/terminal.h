// What lines on standard error may use: redrawing, block characters, how many columns.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "trireme/base/units.h"

namespace trireme::cli {

struct Terminal {
  bool redraws = false;  // a terminal that understands escapes: a line may be drawn over
  bool blocks = false;   // block characters are shown, not garbage
  // Asked at every line, since windows change their size; 0: as long as it likes.
  std::function<int()> columns = [] { return 0; };
  std::function<void(std::string_view)> write = [](std::string_view) {};
};

// TERM=dumb (or no TERM) has no escapes. Blocks need a UTF-8 locale: LC_ALL, LC_CTYPE, LANG, the first that
// is set.
Terminal describe_terminal(bool is_terminal, const std::function<const char*(const char*)>& environment);

// What standard error is connected to.
Terminal stderr_terminal();
// 0: no terminal, or one that does not say.
int stdout_columns();
int stderr_columns();

// Lines that are wider than `columns` are broken at spaces; 0: as they are. A word that is wider stays whole.
// Every character of UTF-8 counts as one column.
std::string wrap_lines(std::string_view text, int columns);

// "|####    |"-like bar of `cells` cells between its edges.
std::string draw_bar(double fraction, int cells, bool blocks);

// What a command is doing while it has nothing to show. On a terminal one line that is drawn over and goes
// away; elsewhere a line when two seconds have passed since the last.
class StatusLine {
 public:
  // `now`: of a clock that outlives this.
  StatusLine(Terminal terminal, std::function<TimeNs()> now);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const std::string& text);
  void clear();

 private:
  Terminal terminal_;
  std::function<TimeNs()> now_;
  TimeNs last_;
  bool dirty_ = false;
};

}  // namespace trireme::cli
