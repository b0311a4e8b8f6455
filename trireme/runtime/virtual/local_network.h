// What one virtual Runtime reaches its peers by: endpoints (endpoint.cc), TCP streams, and inside its machine
// local streams, segments, doorbells and pollers (local_network.cc).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/runtime/virtual/core.h"

namespace trireme::runtime::virt {

class StreamEnd;

class LocalNetwork final : public Network {
 public:
  explicit LocalNetwork(VirtualNode& node) : node_(node) {}

  Result<std::unique_ptr<FabricEndpoint>> open_endpoint(int id) override {
    return node_.core.open_endpoint(node_, id);
  }
  Result<std::unique_ptr<Listener>> listen_local(const std::string& path) override;
  Task<Result<std::unique_ptr<Stream>>> connect_local(std::string path, TimeNs deadline) override;
  Result<std::unique_ptr<Listener>> listen_tcp(HostPort at, bool insecure) override;
  Task<Result<std::unique_ptr<Stream>>> connect_tcp(HostPort to, TimeNs deadline) override;
  Result<std::unique_ptr<SharedSegment>> create_segment(const std::string& name, std::size_t bytes) override;
  Result<std::unique_ptr<Doorbell>> make_doorbell() override;
  void add_poller(Poller* poller) override;
  void remove_poller(Poller* poller) override;

  // Polls after `delay`; rings that come before that are one.
  void poll_after(TimeNs delay);
  void add_stream(std::weak_ptr<StreamEnd> end);
  // The Runtime is dead: its streams close, its listeners go.
  void node_ended();

 private:
  void poll();
  Result<std::unique_ptr<Listener>> listen(const std::string& path, HostPort address);
  Task<Result<std::unique_ptr<Stream>>> connect(int machine_index, std::string path, TimeNs deadline,
                                                bool tcp);

  VirtualNode& node_;
  std::vector<Poller*> pollers_;
  bool poll_pending_ = false;
  std::vector<std::weak_ptr<StreamEnd>> streams_;
};

}  // namespace trireme::runtime::virt
