// StallClock: for how long this rank neither computed nor got on. Getting on is: an operation ended, it waits
// for another one, or data of its messages moves (net::Motion). So a link that takes longer for a message
// than the deadline makes nobody stand still: neither who sends nor who receives.
#pragma once

#include "trireme/base/units.h"
#include "trireme/net/transport.h"

namespace trireme::net {

class StallClock {
 public:
  explicit StallClock(TimeNs now) : changed_at_(now) {}

  void note() { ++progress_; }  // an operation ended, or another one is waited for; cheap
  std::uint64_t progress() const { return progress_; }

  // For how long by now, known to within the time since the last look.
  TimeNs look(TimeNs now, bool busy, const Motion& motion) {
    const bool moves = motion.on_the_way || motion.moved_bytes != seen_bytes_;
    if (busy || moves || progress_ != seen_progress_) changed_at_ = now;
    seen_progress_ = progress_;
    seen_bytes_ = motion.moved_bytes;
    return now - changed_at_;
  }

 private:
  std::uint64_t progress_ = 0, seen_progress_ = 0, seen_bytes_ = 0;
  TimeNs changed_at_;
};

}  // namespace trireme::net
