// What the faults of a world's network do to one message. Internal to runtime/virtual; faults.h says what the
// kinds mean.
#pragma once

#include "trireme/base/rng.h"
#include "trireme/cost/routes.h"
#include "trireme/runtime/virtual/faults.h"

namespace trireme::runtime::virt {

struct Fate {
  TimeNs extra = 0;        // later than the links say: delays and resends
  bool lost = false;       // raw: this message; else the connection, after `extra`
  bool twice = false;      // the links carry it twice
  bool damaged = false;    // raw only
  bool overtaken = false;  // raw only: messages that follow do not wait for it
};

class NetworkChance {
 public:
  NetworkChance(const NetworkFaults& spec, std::uint64_t seed);
  bool any() const { return !spec_.faults.empty(); }
  // `raw` false: the message goes over a reliable layer whatever the spec says (streams).
  Fate decide(TimeNs now, int source, int target, bool raw, cost::Routes& routes);
  bool raw() const { return spec_.raw; }
  std::uint32_t draw_below(std::uint32_t n) { return random_.next_below(n); }

 private:
  // Bits of NetworkFault::Kind that strike a message that leaves now, and the delays of those that do.
  unsigned strike(TimeNs now, int source, int target, cost::Routes& routes, TimeNs& delay);
  bool concerns(const NetworkFault& fault, int source, int target, cost::Routes& routes) const;

  const NetworkFaults& spec_;
  Philox random_;
};

}  // namespace trireme::runtime::virt
