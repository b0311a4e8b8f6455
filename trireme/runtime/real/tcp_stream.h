// TCP streams: the bytes as they are, without delay (TCP_NODELAY), over IPv4 and IPv6.
#pragma once

#include <memory>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/loop.h"

namespace trireme::runtime::real {

// Refuses an address beyond loopback unless `insecure`.
Result<std::unique_ptr<Listener>> make_tcp_listener(Runtime& rt, Loop& loop, const HostPort& at,
                                                    bool insecure);
Task<Result<std::unique_ptr<Stream>>> connect_tcp(Runtime& rt, Loop& loop, HostPort to, TimeNs deadline);

}  // namespace trireme::runtime::real
