#include "trireme/runtime/real/real_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>

#include "trireme/runtime/sync.h"

extern char** environ;  // NOLINT: the environment the children inherit

namespace trireme::runtime::real {
namespace {

int number_of(ProcessSignal signal) {
  switch (signal) {
    case ProcessSignal::kInterrupt:
      return SIGINT;
    case ProcessSignal::kTerminate:
      return SIGTERM;
    case ProcessSignal::kKill:
      return SIGKILL;
    case ProcessSignal::kPause:
      return SIGSTOP;
    case ProcessSignal::kContinue:
      return SIGCONT;
  }
  return SIGKILL;
}

class RealProcess final : public Process, Loop::FdHandler {
 public:
  RealProcess(Runtime& rt, Loop& loop, pid_t pid, Fd pidfd, Fd input)
      : rt_(rt), loop_(loop), pid_(pid), pidfd_(std::move(pidfd)), input_(std::move(input)) {}

  ~RealProcess() override {
    loop_.unwatch(pidfd_.get(), this);
    if (exit_) return;
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }

  Status watch() { return loop_.watch(pidfd_.get(), EPOLLIN, this); }

  std::int64_t pid() const override { return pid_; }

  Task<Result<ExitStatus>> wait(TimeNs deadline) override {
    if (!exit_) {
      OneShot<bool> ended(rt_);
      const Registration registration(waiters_, &ended);
      co_await ended.wait_until(deadline);
    }
    if (!exit_) co_return error(Code::kDeadline, "[processes] process {} still runs at the deadline", pid_);
    co_return *exit_;
  }

  Status signal(ProcessSignal signal) override {
    if (exit_) return error(Code::kNotFound, "[processes] process {} has ended", pid_);
    if (::kill(pid_, number_of(signal)) != 0)
      return system_error("processes", fmt::format("signal process {}", pid_), errno);
    return {};
  }

  Status write_input(std::string_view text) override {
    if (!input_) return Process::write_input(text);
    if (exit_) return error(Code::kNotFound, "[processes] process {} has ended", pid_);
    // A reader that is gone must not raise SIGPIPE here: its end is known by wait().
    const auto sent = ::send(input_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(text.size()))
      return system_error("processes", fmt::format("write to process {}", pid_), errno);
    return {};
  }

 private:
  using Waiters = std::list<OneShot<bool>*>;
  struct Registration {
    Registration(Waiters& list, OneShot<bool>* shot) : waiters(list), place(list.insert(list.end(), shot)) {}
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration() { waiters.erase(place); }
    Waiters& waiters;
    Waiters::iterator place;
  };

  void on_ready(std::uint32_t) override {
    int status = 0;
    if (exit_ || waitpid(pid_, &status, WNOHANG) != pid_) return;
    exit_ = WIFSIGNALED(status) ? ExitStatus{0, WTERMSIG(status)} : ExitStatus{WEXITSTATUS(status), 0};
    for (OneShot<bool>* waiter : waiters_) waiter->set(true);
  }

  Runtime& rt_;
  Loop& loop_;
  const pid_t pid_;
  const Fd pidfd_;
  const Fd input_;  // none: the child has its parent's
  std::optional<ExitStatus> exit_;
  Waiters waiters_;
};

// All memory a child needs between fork and exec, made by the parent: the child may not allocate.
struct Image {
  std::string program;
  std::vector<std::string> environment;
  std::vector<char*> argv, envp;
  bool own_group = false;

  explicit Image(ProcessSpec& spec) : own_group(spec.own_group) {
    program = spec.argv[0].empty() ? "/proc/self/exe" : spec.argv[0];
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const auto name = text.substr(0, text.find('='));
      if (std::none_of(spec.env.begin(), spec.env.end(),
                       [&](const auto& added) { return added.first == name; }))
        environment.emplace_back(text);
    }
    for (const auto& [name, value] : spec.env) environment.push_back(fmt::format("{}={}", name, value));
    for (std::string& argument : spec.argv) argv.push_back(argument.data());
    if (spec.argv[0].empty()) argv[0] = program.data();
    argv.push_back(nullptr);
    for (std::string& entry : environment) envp.push_back(entry.data());
    envp.push_back(nullptr);
  }
};

// Runs in the child: system calls only. Returns the errno of what failed.
int become(const Image& image, pid_t parent, int stdin_fd, int stdout_fd, int stderr_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  if (image.own_group && setpgid(0, 0) != 0) return errno;
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) sigaction(signal, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  if (stdin_fd >= 0 && dup2(stdin_fd, STDIN_FILENO) < 0) return errno;
  if (stdout_fd >= 0 && dup2(stdout_fd, STDOUT_FILENO) < 0) return errno;
  if (stderr_fd >= 0 && dup2(stderr_fd, STDERR_FILENO) < 0) return errno;
  execvpe(image.program.c_str(), image.argv.data(), image.envp.data());
  return errno;
}

Result<Fd> open_output(const std::string& path) {
  if (path.empty()) return Fd();
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return system_error("processes", fmt::format("open '{}' for a child's output", path), errno);
  return fd;
}

Status open_input(bool wanted, Fd& write_end, Fd& read_end) {
  if (!wanted) return {};
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("processes", "make a pipe for a child's input", errno);
  read_end = Fd(ends[0]);
  write_end = Fd(ends[1]);
  return {};
}

class RealProcesses final : public Processes {
 public:
  RealProcesses(Runtime& rt, Loop& loop) : rt_(rt), loop_(loop) {}

  Result<std::unique_ptr<Process>> spawn(ProcessSpec spec) override {
    if (spec.argv.empty())
      return error(Code::kInvalid, "[processes] a process needs a program: argv is empty");
    TR_ASSIGN_OR_RETURN(const Fd out, open_output(spec.stdout_path));
    TR_ASSIGN_OR_RETURN(const Fd err, open_output(spec.stderr_path));
    Fd input, input_in;
    TR_RETURN_IF_ERROR(open_input(spec.input_pipe, input, input_in));
    const Image image(spec);
    const std::string action = fmt::format("start '{}'", image.program);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return system_error("processes", action, errno);
    const Fd failure_in(ends[0]);
    Fd failure_out(ends[1]);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return system_error("processes", action, errno);
    if (pid == 0) {
      const int failure = become(image, parent, input_in.get(), out.get(), err.get());
      [[maybe_unused]] const auto written = ::write(failure_out.get(), &failure, sizeof failure);
      _exit(127);
    }
    failure_out.reset();
    auto process = adopt(pid, action, std::move(input));
    // The pipe closes without a word when exec succeeds.
    int failure = 0;
    ssize_t got = 0;
    while ((got = ::read(failure_in.get(), &failure, sizeof failure)) < 0 && errno == EINTR) {
    }
    if (got == sizeof failure) return system_error("processes", action, failure);
    return process;
  }

 private:
  Result<std::unique_ptr<Process>> adopt(pid_t pid, const std::string& action, Fd input) {
    Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    const int failure = errno;
    const bool opened = static_cast<bool>(pidfd);
    auto process = std::make_unique<RealProcess>(rt_, loop_, pid, std::move(pidfd), std::move(input));
    if (!opened) return system_error("processes", action, failure);
    TR_RETURN_IF_ERROR(process->watch());
    return std::unique_ptr<Process>(std::move(process));
  }

  Runtime& rt_;
  Loop& loop_;
};

}  // namespace

std::unique_ptr<Processes> make_real_processes(Runtime& rt, Loop& loop) {
  return std::make_unique<RealProcesses>(rt, loop);
}

}  // namespace trireme::runtime::real
