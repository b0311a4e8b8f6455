// inproc: ranks of one process (threads, or the virtual cluster) over the Runtime's endpoints.
//
// Rank r is the endpoint `endpoint_base + r`. Header words of a Packet: identity high, identity low,
// fingerprint, type (0 data, 1 control). A payload is copied once into a pooled shared buffer when it is sent
// and once into the recv's buffer when it is matched; phantoms and data-less messages allocate nothing.
#pragma once

#include "trireme/net/factory.h"

namespace trireme::net {

// Never waits: a message to a rank that has not connected yet is kept for it.
runtime::Task<Result<std::unique_ptr<Transport>>> connect_inproc(runtime::Runtime& rt,
                                                                 ConnectOptions options);

}  // namespace trireme::net
