// One collective call of every algorithm on a virtual cluster: the real Group over inproc, phantom payloads,
// virtual time. (In train because it needs comm and is used beside simulate.h.)
#pragma once

#include <string>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::start {

struct CollectiveOptions {
  collective::Kind kind = collective::Kind::kAllreduce;
  int ranks = 4;
  // Rank r is on machine r / ranks_per_machine. The times of faults count from the start of the call.
  int ranks_per_machine = 1;
  // The size of the whole operation, as ScheduleSpec::count means it, rounded up to f32 elements (and equal
  // blocks for gather and scatter); neighbours: of each edge of a ring.
  std::uint64_t bytes = 4 << 20;
  int root = 0;
  runtime::WorldSpec world;  // phantom or not, the run is phantom
  TimeNs deadline = 0;       // after which a silent rank is given up; 0: never
  TimeNs time_limit = 3600 * kSecond;
};

struct CollectiveRow {
  std::string algorithm;
  Status applicable;  // not ok: the rest is empty
  Status result;      // of the ranks: the first failure
  int num_failed = 0;
  TimeNs time = 0;       // from the start to the end of the last rank
  TimeNs predicted = 0;  // by price
  std::int64_t rounds = 0;
  std::uint64_t bytes_per_rank = 0;  // sent by the busiest one, on the wire
  std::uint64_t messages = 0, events = 0;
  std::uint64_t trace_hash = 0;
};

// ok, or why these options make no sense.
Status check_collective_options(const CollectiveOptions& options);
// `algorithm` is a row of collective/table.cc of that kind. Options have been checked.
CollectiveRow simulate_collective(const CollectiveOptions& options, const collective::Algorithm& algorithm);

}  // namespace trireme::start
