// What training looks like on a terminal: `script` gives the binary one.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

constexpr const char* kTrain =
    " train --set train.steps=4 data.limit_train=200 data.limit_test=40 train.batch=50 --run-dir r";

// Everything that `environment` (VARIABLE=VALUE words) and a terminal of `columns` columns show.
std::string shown(const Workspace& w, int columns, const std::string& environment) {
  const std::string command = "stty cols " + std::to_string(columns) + "; env -u LC_ALL -u LC_CTYPE " +
                              environment + " " + binary_path() + kTrain;
  const Ran ran = w.run_program({"script", "-qec", command, "/dev/null"});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  return ran.out;
}

// The longest line that is drawn over, in columns: every character here takes one.
std::size_t longest_drawn(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t end = text.find("\x1b[K"); end != std::string::npos; end = text.find("\x1b[K", end + 1)) {
    const std::size_t begin = text.rfind('\r', end) + 1;
    const auto is_first = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
    longest = std::max(longest, static_cast<std::size_t>(std::count_if(
                                    text.begin() + static_cast<std::ptrdiff_t>(begin),
                                    text.begin() + static_cast<std::ptrdiff_t>(end), is_first)));
  }
  return longest;
}

TEST(OnATerminal, LinesThatAreDrawnOverFitIt) {
  for (const int columns : {80, 40, 30}) {
    const Workspace w;
    const std::string text = shown(w, columns, "TERM=xterm LANG=C.UTF-8");
    EXPECT_NE(text.find("\x1b[K"), std::string::npos) << text;
    EXPECT_LT(longest_drawn(text), static_cast<std::size_t>(columns)) << text;
    EXPECT_NE(text.find("Test accuracy "), std::string::npos) << text;
  }
}

TEST(OnATerminal, TheLastLinesBreakAtSpaces) {
  const Workspace w;
  const std::string wide = shown(w, 200, "TERM=xterm LANG=C.UTF-8");  // the run
  std::string line = wide.substr(wide.find("Test accuracy "));
  line.resize(line.find('\r'));
  ASSERT_GT(line.size(), 60U) << wide;
  const std::string text = shown(w, 40, "TERM=xterm LANG=C.UTF-8");  // the same one, finished before
  std::string joined = text.substr(text.find("Test accuracy "));
  for (std::size_t end = joined.find("\r\n"), begin = 0; end != std::string::npos;
       begin = end + 1, end = joined.find("\r\n", begin)) {
    EXPECT_LE(end - begin, 40U) << text;
    joined.replace(end, 2, " ");
  }
  EXPECT_EQ(joined.substr(0, line.size()), line) << "no word was broken";
}

TEST(OnATerminal, ADumbOneGetsPlainLines) {
  const Workspace w;
  const std::string text = shown(w, 80, "TERM=dumb LANG=C.UTF-8");
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  for (std::size_t at = text.find('\r'); at != std::string::npos; at = text.find('\r', at + 1))
    EXPECT_EQ(text[at + 1], '\n') << "only ends of lines, which the terminal makes of \\n";
}

TEST(OnATerminal, ALocaleWithoutUtf8GetsPlainCharacters) {
  const Workspace w;
  const std::string text = shown(w, 100, "TERM=xterm LANG=C");
  EXPECT_NE(text.find("\x1b[K"), std::string::npos) << text;
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 128;
  })) << text;
}

}  // namespace
}  // namespace trireme::system_test
