// The fabric: endpoints that connect the loops of one process. Thread-safe.
//
// An inbox exists from the first packet to its id or from its opening. A send locks the receiver's inbox
// only; packets travel in batches, one posted callback per batch.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "trireme/runtime/network.h"
#include "trireme/runtime/real/loop.h"
#include "trireme/runtime/real/real_runtime.h"

namespace trireme::runtime {

class Fabric : public std::enable_shared_from_this<Fabric> {
 public:
  // One thing for the owner of an inbox: a packet, or the news that `from` closed.
  struct Item {
    int from = 0;
    bool closed = false;
    Packet packet;
  };
  class Inbox;

  // `loop` must outlive the endpoint.
  Result<std::unique_ptr<FabricEndpoint>> open(int id, real::Loop& loop);
  std::shared_ptr<Inbox> inbox(int id);
  void tell_closed(int id);  // every other endpoint, behind what `id` sent before

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Inbox>> inboxes_;  // guarded by mutex_
};

}  // namespace trireme::runtime
