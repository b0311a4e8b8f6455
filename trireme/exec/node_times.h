// The table behind a Profile, preallocated with its Execution. Internal to exec.
//
// Rows of a strand's nodes are written by whoever runs the strand, and read on the loop after its end.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/exec/compiled.h"

namespace trireme::exec {

class NodeTimes {
 public:
  explicit NodeTimes(const CompiledPlan& plan);

  void add(std::int32_t node, TimeNs begin, TimeNs end);
  // Shares [begin, end] out over the nodes of a strand, in node order, by their modelled times.
  void add_strand(std::int32_t strand, TimeNs begin, TimeNs end);
  // When a strand was started, for those whose nodes are not timed one by one.
  void strand_begins(std::int32_t strand, TimeNs now) {
    strand_begin_[static_cast<std::size_t>(strand)] = now;
  }
  TimeNs strand_begin(std::int32_t strand) const { return strand_begin_[static_cast<std::size_t>(strand)]; }
  void add_launches(std::size_t count) { launches_ += static_cast<std::int64_t>(count); }
  void run_begins(TimeNs now) { run_begin_ = now; }
  // A run that was not `completed` does not count. `whole`: the last phase has ended, or all of them.
  void run_ends(TimeNs now, bool completed, bool whole);

  Profile profile() const;

 private:
  struct Row {
    std::int64_t calls = 0;
    TimeNs total = 0, min = 0, max = 0, begin = 0, end = 0;
    double weight = 1;  // modelled nanoseconds
  };
  const CompiledPlan& plan_;
  std::vector<Row> rows_;  // per node
  std::vector<TimeNs> strand_begin_;
  TimeNs run_begin_ = 0, run_ns_ = 0;
  std::int64_t runs_ = 0, launches_ = 0;
};

}  // namespace trireme::exec
