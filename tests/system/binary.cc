#include "tests/system/binary.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::system_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr TimeNs kWatchdog = 900 * kSecond;
#else
constexpr TimeNs kWatchdog = 300 * kSecond;
#endif
constexpr TimeNs kLook = 5 * kMilli;

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Watch {
  std::string file;
  std::function<void(runtime::Process&)> during;
};

runtime::Task<void> supervise(runtime::Runtime& rt, runtime::ProcessSpec spec, const Watch& watch, Ran* out) {
  auto process = rt.processes().spawn(std::move(spec));
  EXPECT_TRUE(process.ok()) << process.status().to_string();
  if (!process.ok()) co_return;
  const TimeNs end = rt.now() + kWatchdog;
  bool pending = static_cast<bool>(watch.during);
  while (rt.now() < end) {
    Result<runtime::ExitStatus> exit = co_await (*process)->wait(pending ? rt.now() + kLook : end);
    if (exit.ok()) {
      out->code = exit->code;
      out->signal = exit->signal;
      co_return;
    }
    if (pending && std::filesystem::exists(watch.file)) {
      pending = false;
      watch.during(**process);
    }
  }
  out->timed_out = true;
  (void)(*process)->signal(runtime::ProcessSignal::kKill);
}

Ran run_in(const std::string& dir, const std::vector<std::string>& argv, const Watch& watch) {
  runtime::ProcessSpec spec;
  // The shell only changes the directory; it is replaced by the program.
  spec.argv = {"/bin/sh", "-c", "cd \"$1\" && shift && exec \"$@\"", "sh", dir};
  spec.argv.insert(spec.argv.end(), argv.begin(), argv.end());
  spec.env = {{"XDG_CACHE_HOME", ::testing::TempDir() + "trireme-system-cache"},
              {"TRIREME_KERNELS", "default"},
              {"TRIREME_GPU_KERNELS", "none"}};
  spec.stdout_path = dir + "/.out";
  spec.stderr_path = dir + "/.err";
  std::filesystem::remove(spec.stdout_path);
  std::filesystem::remove(spec.stderr_path);
  Ran out;
  const auto rt = runtime::make_real_runtime({});
  rt->run(supervise(*rt, spec, watch, &out));
  out.out = slurp(spec.stdout_path);
  out.err = slurp(spec.stderr_path);
  EXPECT_FALSE(out.timed_out) << "watchdog: still running after minutes\n" << out.err;
  return out;
}

std::vector<std::string> with_binary(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv{binary_path()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

}  // namespace

// Beside the test program when the build does not say (a bundle has both in bin/).
std::string binary_path() {
  if (const char* path = std::getenv("TRIREME_BINARY")) return path;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "trireme";
}

int pid_of_rank(std::int64_t launcher, int rank) {
  const std::string process = "/proc/" + std::to_string(launcher);
  std::istringstream children(slurp(process + "/task/" + std::to_string(launcher) + "/children"));
  const std::string variable = "TRIREME_RANK=" + std::to_string(rank);
  for (int pid = 0; children >> pid;) {
    const std::string environment = '\0' + slurp("/proc/" + std::to_string(pid) + "/environ");
    if (environment.find('\0' + variable + '\0') != std::string::npos) return pid;
  }
  return 0;
}

Workspace::Workspace() {
  std::string pattern = ::testing::TempDir() + "trireme-system-XXXXXX";
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  path_ = pattern;
}

Workspace::~Workspace() { std::filesystem::remove_all(path_); }

Ran Workspace::run(const std::vector<std::string>& arguments) const {
  return run_in(path_, with_binary(arguments), {});
}

Ran Workspace::run_program(const std::vector<std::string>& argv) const { return run_in(path_, argv, {}); }

Ran Workspace::run_until_file(const std::vector<std::string>& arguments, const std::string& file,
                              const std::function<void(runtime::Process&)>& during) const {
  const Watch watch{path_ + "/" + file, during};
  return run_in(path_, with_binary(arguments), watch);
}

std::string Workspace::read(const std::string& name) const { return slurp(path_ + "/" + name); }

void Workspace::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ + "/" + name, std::ios::binary) << text;
}

Json Workspace::json(const std::string& name) const {
  Result<Json> parsed = parse_json(read(name), name);
  return parsed.ok() ? *parsed : Json();
}

void expect_refused(const Workspace& workspace, const std::vector<Refusal>& mistakes) {
  for (const Refusal& m : mistakes) {
    const Ran ran = workspace.run(m.arguments);
    std::string command = "trireme";
    for (const auto& a : m.arguments) command += " " + a;
    EXPECT_EQ(ran.code, m.code) << command << "\n" << ran.err;
    EXPECT_NE(ran.err.find(m.says), std::string::npos) << command << "\n" << ran.err;
  }
}

}  // namespace trireme::system_test
