// Chrome traces (chrome://tracing, Perfetto) of several ranks in one text: pid = rank. The same shape as
// exec::chrome_trace gives for one Profile. Pure.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/base/units.h"

namespace trireme::io {

struct TraceSpan {
  std::string name, category;
  TimeNs begin_ns = 0, end_ns = 0;  // on the rank's clock; an end before the begin counts as the begin
  int tid = 0;                      // the row in which it is drawn; spans of one tid nest or follow
  Json args;                        // an object of details, or null
};

struct TraceCounter {
  std::string name;
  TimeNs at_ns = 0;
  double value = 0;  // what is not finite is left out
};

struct RankTrace {
  int rank = 0;
  std::string name;                         // of the process; empty: "rank <n>"
  TimeNs clock_offset_ns = 0;               // added to all times: brings the ranks' clocks together
  std::map<int, std::string> thread_names;  // by tid
  std::vector<TraceSpan> spans;
  std::vector<TraceCounter> counters;
};

// Well-formed JSON whatever the names: bytes that are not UTF-8 become U+FFFD.
std::string merged_trace(std::span<const RankTrace> ranks);

// Several traces as text ({"traceEvents": [...]}) in one, events in the given order. kCorrupt names the one
// that is not a trace.
Result<std::string> join_traces(std::span<const std::string> traces);

}  // namespace trireme::io
