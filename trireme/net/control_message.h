// The messages of the membership, as bytes of Transport::send_control. Layout: docs/format_shm.md, "Control
// messages".
#pragma once

#include <optional>
#include <string>

#include "trireme/base/bytes.h"
#include "trireme/base/status.h"
#include "trireme/base/units.h"

namespace trireme::net {

enum class ControlType : std::uint8_t {
  kHeartbeat = 1,  // rank -> coordinator: busy, patient, progress, stalled_ns, peer, operation
  kAnswer = 2,     // coordinator -> rank: heard
  kReport = 3,     // rank -> coordinator: peer (culprit), code, operation, reason
  kVerdict = 4,    // to everybody: peer (culprit), code, operation, reason
  kGoodbye = 5,    // rank -> coordinator: leaves in good order
  kFarewell = 6,   // coordinator -> rank: everybody said goodbye
  kPardon = 7,     // coordinator -> reporter: `peer` had left in good order
  kProbe = 8,      // coordinator -> rank: send a heartbeat now
  kCompare = 9,  // coordinator -> rank: say how you made the call (call, turn), now or when you make it; peer
                 // (CallLog::line_of): of the group that made it
  kCall = 10,    // rank -> coordinator: call, turn, peer (CallLog::line_of), digest, progress (its serial
  // number), operation, reason (in words), code (kMismatch: in the step before this rank called
  // something else there)
  kLost = 11,  // coordinator -> rank: `peer` is lost and the others go on; code, operation, reason
};

struct ControlMessage {
  ControlType type = ControlType::kHeartbeat;
  std::uint32_t epoch = 0;
  bool busy = false;
  bool patient = false;
  std::uint64_t progress = 0;
  TimeNs stalled_ns = 0;
  int peer = -1;
  Code code = Code::kOk;
  std::uint64_t call = 0;  // CallId (call_log.h): group, slot and step
  std::uint32_t turn = 0;
  std::uint64_t digest = 0;
  std::string operation = {};  // at most 400 bytes travel
  std::string reason = {};     // at most 400 bytes travel
};

Bytes encode(const ControlMessage& message);
// Nothing when the bytes are no such message; hostile bytes are safe.
std::optional<ControlMessage> decode_control(ByteView bytes);

}  // namespace trireme::net
