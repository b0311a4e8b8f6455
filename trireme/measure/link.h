// How long messages between two ranks of this host take: ping-pongs over a real transport, fitted.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/cost/calibration.h"
#include "trireme/net/transport.h"
#include "trireme/runtime/runtime.h"

namespace trireme::measure {

// Two ranks may be put on one core of a busy host, and then each message waits for a turn: they meet several
// times, and for every size the meeting counts in which its median was least.
// Ranks that spin wait this long: one that blocked is woken on the core of the other and stays there, while
// two that spin are soon put on cores of their own.
inline constexpr TimeNs kLongSpin = 20 * kMilli;
inline constexpr int kMeetings = 5;

struct LinkMeasurement {
  std::string transport;
  // Empty folders for the ranks to find each other in, one per meeting: kMeetings, and one more.
  std::vector<std::string> dirs;
  bool quick = false;  // few sizes and repeats: to see that it works, not to rely on
};

// Two ranks, each on a thread of this process with a Runtime of its own: the transport does the same between
// threads as between processes of a host. They meet in dirs[meeting]; the first failure of either.
using RankBody = std::function<runtime::Task<Status>(runtime::Runtime& rt,
                                                     std::unique_ptr<net::Transport> transport, int rank)>;
Status run_pair(const LinkMeasurement& what, int meeting, TimeNs spin_ns, const RankBody& body);

// Takes about a second per transport.
Result<cost::TransportCalibration> measure_link(const LinkMeasurement& what);

// Quartiles of repeats.
struct Repeats {
  double median = 0, spread = 0;  // spread: (third - first quartile) / median
};
Repeats summarise_repeats(std::vector<double> values);

}  // namespace trireme::measure
