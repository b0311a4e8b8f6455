// Streams between processes of one host: Unix sockets that also carry segments and doorbells (SCM_RIGHTS).
//
// What is written travels in frames {u32 kind, u32 bytes, payload}: bytes, a segment (payload: u64 size; one
// descriptor) or a doorbell (no payload; two descriptors). So the two ends need not agree on how reads of
// bytes and of segments interleave: each kind keeps its own order.
#pragma once

#include <memory>
#include <string>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/fd.h"
#include "trireme/runtime/real/loop.h"

namespace trireme::runtime::real {

// Takes a connected, non-blocking socket. Refuses a peer of another user.
Result<std::unique_ptr<Stream>> make_unix_stream(Runtime& rt, Loop& loop, Fd socket);

Result<std::unique_ptr<Listener>> make_unix_listener(Runtime& rt, Loop& loop, const std::string& path);
Task<Result<std::unique_ptr<Stream>>> connect_unix(Runtime& rt, Loop& loop, std::string path,
                                                   TimeNs deadline);

}  // namespace trireme::runtime::real
