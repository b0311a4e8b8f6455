// shm: ranks of one host over shared memory.
//
// Every rank owns one exchange segment with a data ring and a control ring per sender; senders write frames
// and payload straight into the receiver's rings and ring its doorbell. A message larger than its ring flows
// through in pieces. A message that comes before its recv is copied out, up to kMaxHeldBytes per peer; beyond
// that its ring stands until a recv takes something, while control messages go on in their own ring. What a
// peer writes is checked before it is believed: nonsense ends every recv from that peer with kCorrupt. Byte
// layout: docs/format_shm.md.
#pragma once

#include "trireme/net/factory.h"

namespace trireme::net {

inline constexpr std::uint64_t kMaxHeldBytes = 256U << 20;

// Waits until all ranks of the world have come to `options.rendezvous`, a directory that exists.
runtime::Task<Result<std::unique_ptr<Transport>>> connect_shm(runtime::Runtime& rt, ConnectOptions options);

}  // namespace trireme::net
