#include "trireme/runtime/real/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>

#include <fmt/core.h>

#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  return text.str();
}

std::optional<double> number_in(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "200000 100000": microseconds of each period; "max 100000": no limit.
std::optional<double> cores_of_v2(const ReadText& read, const std::string& group) {
  const std::string text = read(group + "/cpu.max");
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos) return std::nullopt;
  const auto quota = number_in(std::string_view(text).substr(0, blank));
  const auto period = number_in(std::string_view(text).substr(blank + 1));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::optional<double> cores_of_v1(const ReadText& read, const std::string& group) {
  const auto quota = number_in(read(group + "/cpu.cfs_quota_us"));  // -1: no limit
  const auto period = number_in(read(group + "/cpu.cfs_period_us"));
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

using CoresOf = std::optional<double> (*)(const ReadText&, const std::string&);

// The least over `group` and those above it. A container may see its own group as the root of the mount,
// under whatever name the host has for it: the root is always looked at.
void look_up(const ReadText& read, const std::string& mount, std::string group, CoresOf cores_of,
             std::optional<double>& least) {
  for (;;) {
    while (group.ends_with('/')) group.pop_back();
    if (const auto cores = cores_of(read, mount + group)) least = std::min(least.value_or(*cores), *cores);
    if (group.empty()) return;
    group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

bool lists_cpu(std::string_view controllers) {
  for (;;) {
    const std::size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
}

// A line of /proc/PID/status without its key; "": not there.
std::string_view field_of(std::string_view status, std::string_view key) {
  const std::string line = fmt::format("{}:\t", key);
  std::size_t at = status.find(line);
  while (at != std::string_view::npos && at > 0 && status[at - 1] != '\n') at = status.find(line, at + 1);
  if (at == std::string_view::npos) return {};
  const std::string_view value = status.substr(at + line.size());
  return value.substr(0, value.find('\n'));
}

// Counts the bits of hexadecimal words with commas between them: "ff,ffffffff".
int count_bits(std::string_view mask) {
  int count = 0;
  for (const char& c : mask) {
    unsigned digit = 0;
    if (std::from_chars(&c, &c + 1, digit, 16).ec == std::errc()) count += std::popcount(digit);
  }
  return count;
}

// Daemons and commands that start ranks and bind them, as the kernel names them (at most 15 characters).
bool starts_ranks(std::string_view name) {
  constexpr std::string_view kNames[] = {"mpirun", "mpiexec", "orterun",         "orted",     "prterun",
                                         "prte",   "prted",   "hydra_pmi_proxy", "slurmstepd"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

int within_quota(int cores) {
  static const int quota = quota_cores(read_text);
  return std::max(1, quota > 0 ? std::min(cores, quota) : cores);
}

}  // namespace

// Lines of /proc/self/cgroup are "number:controllers:path"; version 2 has number 0 and no controllers.
int quota_cores(const ReadText& read) {
  std::optional<double> least;
  std::istringstream lines(read("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    if (line.starts_with("0::")) {
      look_up(read, "/sys/fs/cgroup", path, cores_of_v2, least);
    } else if (lists_cpu(controllers)) {
      look_up(read, "/sys/fs/cgroup/cpu", path, cores_of_v1, least);
      if (controllers != "cpu") look_up(read, "/sys/fs/cgroup/" + controllers, path, cores_of_v1, least);
    }
  }
  return least ? std::max(1, static_cast<int>(*least)) : 0;
}

int num_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return within_quota(CPU_COUNT(&allowed));
  return within_quota(static_cast<int>(std::thread::hardware_concurrency()));
}

int cores_above(const ReadText& read, std::int64_t parent) {
  constexpr int kMostScripts = 8;  // between the launcher and this process
  int of_parent = 0;
  for (int i = 0; i < kMostScripts && parent > 0; ++i) {
    const std::string status = read(fmt::format("/proc/{}/status", parent));
    const int cores = count_bits(field_of(status, "Cpus_allowed"));
    if (i == 0) of_parent = cores;
    if (starts_ranks(field_of(status, "Name"))) return cores;
    parent = static_cast<std::int64_t>(number_in(field_of(status, "PPid")).value_or(0));
  }
  return of_parent;
}

int launcher_cores() { return std::max(num_cores(), within_quota(cores_above(read_text, ::getppid()))); }

int threads_of_rank(int own, int launcher, int local_world) {
  return std::max(1, std::min(own, launcher / std::max(1, local_world)));
}

}  // namespace trireme::runtime
