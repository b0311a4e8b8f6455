// TCP streams: the bytes as they are, without delay (TCP_NODELAY), over IPv4 and IPv6.
#pragma once

#include <memory>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/loop.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime::real {

// Refuses an address beyond loopback unless `insecure`. Then a name that means loopback here alone, as a
// host's own does on Debian (127.0.1.1 in /etc/hosts), is listened at on every address: others know it by
// another.
Result<std::unique_ptr<Listener>> make_tcp_listener(Runtime& rt, Loop& loop, const HostPort& at,
                                                    bool insecure, const Resolve& resolve);
// kNotFound: nobody knows the name (now).
Task<Result<std::unique_ptr<Stream>>> connect_tcp(Runtime& rt, Loop& loop, HostPort to, TimeNs deadline,
                                                  const Resolve& resolve);

}  // namespace trireme::runtime::real
