// The connections of the tcp transport: one for data and one for control between every two ranks, so that
// data that stands does not stop heartbeats. The higher rank connects, both say hello. Internal to net/tcp.
#pragma once

#include <memory>
#include <vector>

#include "trireme/net/rendezvous.h"

namespace trireme::net::tcp {

inline constexpr std::uint32_t kDataChannel = 0, kControlChannel = 1, kNumChannels = 2;

struct PeerStreams {
  std::unique_ptr<runtime::Stream> channels[kNumChannels];
};

// By rank; the own entry is empty. Ends at the deadline with an error that names the ranks that are missing.
runtime::Task<Result<std::vector<PeerStreams>>> connect_mesh(runtime::Runtime& rt, ConnectOptions options,
                                                             Met met, TimeNs deadline);

}  // namespace trireme::net::tcp
