#include "trireme/exec/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "trireme/base/json.h"

namespace trireme::exec {
namespace {

// 10^9 per second is 1 per nanosecond.
double rate(double amount, std::int64_t calls, TimeNs ns) {
  return ns > 0 ? amount * static_cast<double>(calls) / static_cast<double>(ns) : 0;
}

double millis(TimeNs ns) { return static_cast<double>(ns) * 1e-6; }
double micros(TimeNs ns) { return static_cast<double>(ns) * 1e-3; }

struct OpTotal {
  std::string op;
  std::int64_t calls = 0;
  TimeNs ns = 0;
  double flops = 0, bytes = 0;
};

std::vector<OpTotal> totals_by_op(const Profile& profile) {
  std::map<std::string, OpTotal> totals;
  for (const NodeProfile& n : profile.nodes) {
    OpTotal& t = totals[n.op];
    t.op = n.op;
    t.calls += n.calls;
    t.ns += n.total_ns;
    t.flops += n.flops * static_cast<double>(n.calls);
    t.bytes += n.bytes * static_cast<double>(n.calls);
  }
  std::vector<OpTotal> sorted;
  for (auto& [op, t] : totals) sorted.push_back(std::move(t));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OpTotal& a, const OpTotal& b) { return a.ns > b.ns; });
  return sorted;
}

std::string line(TimeNs ns, TimeNs all, std::int64_t calls, double gflops, double gbytes) {
  const double share = all > 0 ? 100.0 * static_cast<double>(ns) / static_cast<double>(all) : 0;
  const double each = calls > 0 ? micros(ns) / static_cast<double>(calls) : 0;
  return fmt::format("{:>10.3f} {:>6.1f} {:>8} {:>11.2f} {:>9.2f} {:>8.2f}", millis(ns), share, calls, each,
                     gflops, gbytes);
}

constexpr const char* kColumns = "   time ms  share    calls     us/call   GFLOP/s     GB/s";

}  // namespace

double NodeProfile::gflops() const { return rate(flops, calls, total_ns); }
double NodeProfile::gbytes_per_second() const { return rate(bytes, calls, total_ns); }

TimeNs Profile::node_ns() const {
  TimeNs sum = 0;
  for (const NodeProfile& n : nodes) sum += n.total_ns;
  return sum;
}

std::string Profile::to_text() const {
  const TimeNs all = node_ns();
  std::string text =
      fmt::format("{} runs, {:.3f} ms in runs, {:.3f} ms in {} nodes\n\n{}  op, kernel, node\n", runs,
                  millis(run_ns), millis(all), nodes.size(), kColumns);
  std::vector<const NodeProfile*> sorted;
  for (const NodeProfile& n : nodes) sorted.push_back(&n);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const NodeProfile* a, const NodeProfile* b) { return a->total_ns > b->total_ns; });
  for (const NodeProfile* n : sorted)
    text +=
        fmt::format("{}  {}, {}, {}\n", line(n->total_ns, all, n->calls, n->gflops(), n->gbytes_per_second()),
                    n->op, n->kernel.empty() ? "host" : n->kernel, n->name);
  text += fmt::format("\n{}  op\n", kColumns);
  for (const OpTotal& t : totals_by_op(*this))
    text += fmt::format("{}  {}\n", line(t.ns, all, t.calls, rate(t.flops, 1, t.ns), rate(t.bytes, 1, t.ns)),
                        t.op);
  return text;
}

std::string chrome_trace(const Profile& profile, std::string_view process_name, int pid) {
  Json events = Json::array();
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", pid},
                    {"tid", 0},
                    {"args", {{"name", std::string(process_name)}}}});
  std::set<int> strands;
  for (const NodeProfile& n : profile.nodes) {
    if (n.calls == 0) continue;
    if (strands.insert(n.strand).second)
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", pid},
                        {"tid", n.strand},
                        {"args", {{"name", fmt::format("strand {}", n.strand)}}}});
    Json args = {{"kernel", n.kernel}, {"flops", n.flops}, {"bytes", n.bytes}};
    events.push_back({{"name", n.name},
                      {"cat", n.op},
                      {"ph", "X"},
                      {"ts", micros(n.begin_ns)},
                      {"dur", micros(n.end_ns - n.begin_ns)},
                      {"pid", pid},
                      {"tid", n.strand},
                      {"args", std::move(args)}});
  }
  const Json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return trace.dump(1);
}

}  // namespace trireme::exec
