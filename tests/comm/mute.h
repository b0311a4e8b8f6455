// A transport that can be cut off from the world for a while: nothing leaves or arrives, nobody is told, and
// what was held goes on afterwards, as over a stalled connection.
#pragma once

#include <memory>

#include "trireme/net/transport.h"

namespace trireme::comm::testing {

class Mute {
 public:
  virtual ~Mute() = default;
  virtual void begin(TimeNs duration) = 0;
};

// `*mute` is valid as long as the transport. It has no memory that peers see.
std::unique_ptr<net::Transport> make_mute_transport(runtime::Runtime& rt,
                                                    std::unique_ptr<net::Transport> inner, Mute** mute);

}  // namespace trireme::comm::testing
