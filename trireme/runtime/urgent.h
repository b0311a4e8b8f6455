// Urgent packets: small ones that wait for no large one before them on a link, as packets of several
// connections take turns on a real one. They keep their order among themselves, and none against others.
#pragma once

#include "trireme/runtime/network.h"

namespace trireme::runtime {

// The last word of a packet's header is its own for this; others leave it 0.
inline constexpr std::uint64_t kUrgentWord = 0x55524745;  // "URGE"
inline void mark_urgent(Packet& packet) { packet.header.back() = kUrgentWord; }
inline bool is_urgent(const Packet& packet) { return packet.header.back() == kUrgentWord; }

}  // namespace trireme::runtime
