// Faults of links and disks of a virtual world, as values. Faults of Runtimes are FaultSpec (world.h).
//
// Links. Endpoints and streams are what a TCP-like layer gives, ordered and reliable, so a fault below them
// costs time: a message that is lost, or damaged and so thrown away, is sent again after `resend_after`,
// which doubles every time; what follows it between the same two ends waits for it. After `max_resends` the
// connection is lost: both ends hear that the other closed, and nothing passes between them any more. With
// `raw` there is no such layer and endpoints see what happens: lost messages never arrive, duplicates arrive
// twice, late ones are overtaken, damaged ones have a bit flipped. Streams are never raw.
//
// Whether a fault strikes is drawn when a message leaves its sender (and once per resend), from the world's
// seed. Messages inside a machine are never struck.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/base/units.h"

namespace trireme::runtime {

struct NetworkFault {
  enum class Kind : std::uint8_t {
    kLoss,       // the message does not arrive
    kDelay,      // it takes `delay` longer, and what follows it waits
    kDuplicate,  // the links carry it twice
    kReorder,    // it takes `delay` longer; raw: what follows overtakes it
    kCorrupt,    // it arrives damaged
    kPartition,  // nothing passes, probability or not
  };
  Kind kind = Kind::kLoss;
  std::vector<int> from, to;  // machines; none: any
  bool one_way = false;       // false: also from `to` to `from`
  int link = -1;              // only messages whose way has this link (cost::Routes::links); -1: any
  double probability = 1;     // per message
  TimeNs at = 0, duration = kForever;
  TimeNs delay = 1 * kMilli;

  bool active(TimeNs now) const { return now >= at && now - at < duration; }
};

struct NetworkFaults {
  std::vector<NetworkFault> faults;
  bool raw = false;
  TimeNs resend_after = 200 * kMilli;  // the least retransmission timeout of common systems
  int max_resends = 5;                 // the connection is lost 6.2 s after the first try with these values
};

// Beside FaultSpec's kError at site "disk", which strikes one operation of one Runtime.
struct DiskFault {
  enum class Kind : std::uint8_t {
    kError,  // an operation fails with kUnavailable, with `probability`
    kFull,   // a write or append that would make the files of the machine exceed `capacity_bytes` fails with
             // kExhausted and changes nothing
  };
  Kind kind = Kind::kError;
  int machine = -1;  // -1: all
  double probability = 1;
  TimeNs at = 0, duration = kForever;
  std::uint64_t capacity_bytes = 0;

  bool active(int on_machine, TimeNs now) const {
    return (machine < 0 || machine == on_machine) && now >= at && now - at < duration;
  }
};

}  // namespace trireme::runtime
