// Child processes. Real: fork/exec. Virtual: the world's registered program on the same machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

struct ProcessSpec {
  std::vector<std::string> argv;                         // argv[0] is the program ("" = this binary)
  std::vector<std::pair<std::string, std::string>> env;  // added to the parent's environment
  std::string stdout_path, stderr_path;                  // files to append to; empty = inherited
  // True: a Ctrl-C on the terminal does not reach the child by itself; its parent passes on what it should
  // hear.
  bool own_group = false;
  // True: standard input is a pipe that write_input() fills and that closes with the Process; otherwise it is
  // the parent's.
  bool input_pipe = false;
};

struct ExitStatus {
  int code = 0;    // exit code when signal == 0
  int signal = 0;  // what killed it
  bool ok() const { return code == 0 && signal == 0; }
};

enum class ProcessSignal { kInterrupt, kTerminate, kKill, kPause, kContinue };

class Process {
 public:
  virtual ~Process() = default;  // a child still running is killed and reaped
  virtual std::int64_t pid() const = 0;
  // Resumes when it ended or at the deadline (kDeadline). May be called again.
  virtual Task<Result<ExitStatus>> wait(TimeNs deadline) = 0;
  virtual Status signal(ProcessSignal signal) = 0;
  // A few bytes for a child with an input_pipe; what does not fit into the pipe at once is an error.
  virtual Status write_input(std::string_view text) {
    return error(Code::kInvalid, "[processes] process {} has no input pipe for {} bytes", pid(), text.size());
  }
};

class Processes {
 public:
  virtual ~Processes() = default;
  virtual Result<std::unique_ptr<Process>> spawn(ProcessSpec spec) = 0;
};

}  // namespace trireme::runtime
