// The Network of a real Runtime: fabric endpoints, Unix and TCP sockets, memory files.
#pragma once

#include <memory>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/loop.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime::real {

std::unique_ptr<Network> make_real_network(Runtime& rt, Loop& loop, std::shared_ptr<Fabric> fabric,
                                           Resolve resolve);

}  // namespace trireme::runtime::real
