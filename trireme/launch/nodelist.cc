#include "trireme/launch/nodelist.h"

#include <charconv>

#include "trireme/launch/variables.h"

namespace trireme::launch {
namespace {

constexpr int kMaxHosts = 1 << 20;

// "01-03,7": the first number as it is written, and how many there are; count 0 when it makes no sense.
struct Ranges {
  std::string_view first;
  int count = 0;
};

bool parse_number(std::string_view text, int& value) {
  const auto [at, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && at == text.data() + text.size() && value >= 0;
}

Ranges parse_ranges(std::string_view text) {
  Ranges out;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t dash = item.find('-');
    int from = 0, to = 0;
    if (!parse_number(item.substr(0, dash), from)) return {};
    to = from;
    if (dash != std::string_view::npos && !parse_number(item.substr(dash + 1), to)) return {};
    if (to < from || to - from >= kMaxHosts) return {};
    if (out.count == 0) out.first = item.substr(0, dash);
    out.count += to - from + 1;
    if (out.count > kMaxHosts) return {};
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

// One name with any number of brackets: their counts multiply.
bool parse_name(std::string_view text, Nodelist& out) {
  out.count = 1;
  while (!text.empty()) {
    const std::size_t open = text.find('[');
    out.first += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find(']', open);
    if (close == std::string_view::npos) return false;
    const Ranges ranges = parse_ranges(text.substr(open + 1, close - open - 1));
    if (ranges.count == 0 || ranges.count > kMaxHosts / out.count) return false;
    out.first += ranges.first;
    out.count *= ranges.count;
    text.remove_prefix(close + 1);
  }
  return !out.first.empty() && out.first.find(']') == std::string::npos;
}

}  // namespace

Result<Nodelist> parse_nodelist(std::string_view text) {
  Nodelist all;
  const auto wrong = [&] {
    return error(Code::kInvalid,
                 "[launch] no list of hosts: got '{}', expected something like node[01-03,7],gpu5", text);
  };
  std::string_view rest = text;
  while (true) {
    // A comma inside brackets separates numbers, not hosts.
    std::size_t end = 0;
    int depth = 0;
    for (; end < rest.size() && (rest[end] != ',' || depth > 0); ++end)
      depth += rest[end] == '[' ? 1 : rest[end] == ']' ? -1 : 0;
    Nodelist one;
    if (!parse_name(rest.substr(0, end), one) || all.count > kMaxHosts - one.count) return wrong();
    if (all.count == 0) all.first = one.first;
    all.count += one.count;
    if (end == rest.size()) return all;
    rest.remove_prefix(end + 1);
  }
}

Result<int> tasks_of_node(std::string_view text, int node) {
  const auto wrong = [&] {
    return error(
        Code::kInvalid,
        "[launch] no numbers of tasks per host: got '{}' for host {}, expected something like 2(x3),1", text,
        node);
  };
  std::string_view rest = text;
  for (int before = 0;;) {
    const std::size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    int tasks = 0, hosts = 1;
    if (const std::size_t times = item.find("(x"); times != std::string_view::npos) {
      if (!item.ends_with(')')) return wrong();
      if (!parse_number(item.substr(times + 2, item.size() - times - 3), hosts)) return wrong();
      item = item.substr(0, times);
    }
    if (!parse_number(item, tasks) || hosts > kMaxHosts - before) return wrong();
    before += hosts;
    if (node >= 0 && node < before) return tasks;
    if (comma == std::string_view::npos) return wrong();
    rest.remove_prefix(comma + 1);
  }
}

Result<std::string> slurm_coordinator(const Lookup& get) {
  const std::string nodes = first_set(get, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const std::string job = first_set(get, {"SLURM_JOB_ID", "SLURM_JOBID"});
  if (nodes.empty() || job.empty()) return std::string();
  TR_ASSIGN_OR_RETURN(const Nodelist list, parse_nodelist(nodes));
  const std::string step = first_set(get, {"SLURM_STEP_ID", "SLURM_STEPID"});
  return fmt::format("{}:{}", list.first, port_of(fmt::format("{}.{}", job, step)));
}

}  // namespace trireme::launch
