#include "trireme/io/trace.h"

#include <algorithm>
#include <cmath>

namespace trireme::io {
namespace {

double micros(TimeNs ns) { return static_cast<double>(ns) / 1e3; }

// One event per line: a trace of millions of events is never one JSON value in memory.
class TraceText {
 public:
  void add(const Json& event) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    text_ += event.dump();
  }
  void add_name(const char* what, int pid, int tid, const std::string& name) {
    add({{"name", what}, {"ph", "M"}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}});
  }
  std::string finish() && { return std::move(text_) + "\n]}\n"; }

 private:
  std::string text_ = R"({"displayTimeUnit":"ns","traceEvents":[)";
  bool first_ = true;
};

void add_rank(TraceText& out, const RankTrace& rank) {
  out.add_name("process_name", rank.rank, 0,
               rank.name.empty() ? fmt::format("rank {}", rank.rank) : rank.name);
  out.add({{"name", "process_sort_index"},
           {"ph", "M"},
           {"pid", rank.rank},
           {"tid", 0},
           {"args", {{"sort_index", rank.rank}}}});
  for (const auto& [tid, name] : rank.thread_names) out.add_name("thread_name", rank.rank, tid, name);
  for (const TraceSpan& s : rank.spans) {
    Json event = {{"name", s.name},
                  {"cat", s.category},
                  {"ph", "X"},
                  {"ts", micros(s.begin_ns + rank.clock_offset_ns)},
                  {"dur", micros(std::max<TimeNs>(0, s.end_ns - s.begin_ns))},
                  {"pid", rank.rank},
                  {"tid", s.tid}};
    if (s.args.is_object()) event["args"] = s.args;
    out.add(event);
  }
  for (const TraceCounter& c : rank.counters)
    if (std::isfinite(c.value))
      out.add({{"name", c.name},
               {"ph", "C"},
               {"ts", micros(c.at_ns + rank.clock_offset_ns)},
               {"pid", rank.rank},
               {"tid", 0},
               {"args", {{"value", c.value}}}});
}

}  // namespace

std::string merged_trace(std::span<const RankTrace> ranks) {
  TraceText out;
  for (const RankTrace& rank : ranks) add_rank(out, rank);
  return std::move(out).finish();
}

Result<std::string> join_traces(std::span<const std::string> traces) {
  TraceText out;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const std::string what = fmt::format("trace {}", i);
    TR_ASSIGN_OR_RETURN(const Json json, parse_json(traces[i], what));
    const auto events = json.is_object() ? json.find("traceEvents") : json.end();
    if (!json.is_object() || events == json.end() || !events->is_array())
      return error(Code::kCorrupt, "[trace] {} has no list 'traceEvents'", what);
    for (const Json& event : *events) out.add(event);
  }
  return std::move(out).finish();
}

}  // namespace trireme::io
