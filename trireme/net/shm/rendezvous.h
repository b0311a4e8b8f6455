// How the ranks of one host find each other: every pair gets a Unix stream over which both ends say hello,
// then pass their exchange segment and doorbell. The higher rank connects, the lower one listens at
// `<dir>/rank-<r>.sock`.
#pragma once

#include <memory>
#include <vector>

#include "trireme/net/factory.h"
#include "trireme/runtime/network.h"

namespace trireme::net::shm {

struct PeerLink {
  std::shared_ptr<runtime::Stream> stream;          // stays open: its end is the end of the peer
  std::unique_ptr<runtime::SharedSegment> segment;  // the peer's exchange segment, to write into
  std::unique_ptr<runtime::Doorbell> bell;          // the peer's
};

struct Connected {
  std::unique_ptr<runtime::SharedSegment> segment;  // own
  std::vector<PeerLink> links;                      // by rank; the own entry is empty
};

// Ends at the deadline of `options` at the latest, with an error that names the ranks that did not arrive.
runtime::Task<Result<Connected>> rendezvous(runtime::Runtime& rt, ConnectOptions options);

}  // namespace trireme::net::shm
