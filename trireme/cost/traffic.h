// Traffic: what replicas exchange beside their computation, as their rule has it. A value; rules say it,
// plans price it, and neither knows the other.
#pragma once

#include <cstdint>

namespace trireme::cost {

struct Traffic {
  enum class Path : std::uint8_t {
    kNone,       // nothing travels
    kAllreduce,  // all workers make one sum or mean
    kServers,    // to servers and back
    kPeers,      // copies to some other workers
  };
  Path path = Path::kNone;
  double every = 1;          // steps of a worker between exchanges; 0: as rare as keeps them within `share`
  double share = 0;          // every == 0: of a step, that exchanges may take
  double copies = 1;         // kPeers: how many others get what is sent
  double passes = 0;         // floats that the worker reads and writes per element and exchange, by itself
  bool gradients = false;    // kAllreduce: of every step, as backward makes them final
  bool slack = false;        // workers wait for others, but need not be at the same point
  bool alone = false;        // no worker waits for another one
  bool hidden = false;       // the worker computes on while it travels
  bool skips = false;        // what finds its way occupied is left out: nobody ever waits for a link
  bool updates_here = true;  // the worker runs the optimiser; otherwise the servers do
  double quorum = 1;         // share of the workers that a step waits for, where not alone
};

}  // namespace trireme::cost
