// Measuring parameter servers: one number of workers, servers and bytes.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/status.h"
#include "trireme/base/units.h"
#include "trireme/cost/cost.h"

namespace trireme::measure {

// Every server keeps one vector of `bytes`; in a round every worker pushes to all of them, then pulls all.
struct ServerCase {
  std::string transport = "shm";
  std::string dir;  // where the ranks meet; empty of others
  int workers = 1, servers = 1;
  std::uint64_t bytes = 4096;
  int repeats = 5;
  double seconds = 0.2;  // of a repeat, about
};

struct ServerFigures {
  ServerCase setup;
  double round_us = 0;  // median of the repeats
  double spread = 0;    // quartile distance / median
  double bound_us = 0;  // no server is faster on such links
  std::int64_t rounds = 0;

  // Pushes and pulls of all workers.
  double messages_per_second() const;
  double bytes_per_second() const;
  double share_of_bound() const { return round_us > 0 ? bound_us / round_us : 0; }
};

// Ranks are threads of this process with a Runtime each, as calibration's are: the transport does the same
// between threads as between processes of a host. Updates are plain additions, one per push (async).
Result<ServerFigures> measure_servers(const ServerCase& setup);

// A worker's bytes up and then down its own link, or all workers' bytes through a server's, and the latency
// there and back.
double server_bound_us(const ServerCase& setup, const cost::LinkModel& link);

}  // namespace trireme::measure
