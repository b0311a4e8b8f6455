// Runs the trireme binary as a user would, under a watchdog.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/runtime/processes.h"

namespace trireme::system_test {

struct Ran {
  int code = -1;
  int signal = 0;
  std::string out, err;  // standard output and error
  bool timed_out = false;
};

// The path of the trireme binary.
std::string binary_path();

// The process among the children of `launcher` that runs this rank; 0: there is none.
int pid_of_rank(std::int64_t launcher, int rank);

// A fresh directory, removed with the object. Runs start in it; the digits' cache is shared by all tests of
// the program.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Runs to the end; the watchdog kills it after five minutes (fifteen under a sanitizer).
  Ran run(const std::vector<std::string>& arguments) const;
  // The same for any program, found by the shell.
  Ran run_program(const std::vector<std::string>& argv) const;
  // Calls `during` once when `file` (below the workspace) exists, then waits for the end.
  Ran run_until_file(const std::vector<std::string>& arguments, const std::string& file,
                     const std::function<void(runtime::Process&)>& during) const;

  std::string read(const std::string& name) const;  // "" when missing
  void write(const std::string& name, const std::string& text) const;
  Json json(const std::string& name) const;  // null when missing or not JSON

 private:
  std::string path_;
};

// A command line that is refused: its exit code and a telling part of the message.
struct Refusal {
  std::vector<std::string> arguments;
  int code;
  const char* says;
};
void expect_refused(const Workspace& workspace, const std::vector<Refusal>& mistakes);

}  // namespace trireme::system_test
