// tcp: ranks on any hosts, over two connections per pair: one for data, one for control messages.
//
// Messages are cut in frames with checksums (frame.h, docs/format_wire.md). A payload is written from the
// sender's memory and read straight into the posted recv; it completes after its checksum was right. A
// message that comes before its recv is kept, up to kMaxHeldTcpBytes per peer; beyond that its connection
// stands until a recv takes something, and so does the sender when the socket buffers are full, while control
// messages go on. Bytes that are no frames end every recv from that peer with kCorrupt. Sends to a peer that
// closed stay outstanding until poison, as recvs do: the closed handler tells.
//
// One data connection per pair: a second does not make a thread that copies faster (docs/format_wire.md has
// the figures).
#pragma once

#include "trireme/net/factory.h"

namespace trireme::net {

inline constexpr std::uint64_t kMaxHeldTcpBytes = 256U << 20;

// Waits until all ranks of the world have met (rendezvous.h) and are connected.
runtime::Task<Result<std::unique_ptr<Transport>>> connect_tcp(runtime::Runtime& rt, ConnectOptions options);

}  // namespace trireme::net
