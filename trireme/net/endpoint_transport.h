// EndpointTransport: the part of a Transport that its Endpoint answers by itself, whatever the medium, and
// messages of a rank to itself.
#pragma once

#include <memory>
#include <utility>

#include "trireme/net/buffer_pool.h"
#include "trireme/net/endpoint.h"

namespace trireme::net {

class EndpointTransport : public Transport {
 public:
  int rank() const final { return endpoint_->rank(); }
  int world() const final { return endpoint_->world(); }
  void set_control_handler(std::function<void(int, ByteView)> handler) final {
    endpoint_->set_control_handler(std::move(handler));
  }
  void set_closed_handler(std::function<void(int)> handler) final {
    endpoint_->set_closed_handler(std::move(handler));
  }
  void visit_waiting(const WaitingVisitor& visit) const override {
    std::as_const(*endpoint_).matcher().visit_arrived(visit);
  }
  std::uint64_t bytes_sent() const final { return bytes_sent_; }

 protected:
  EndpointTransport(runtime::Runtime& rt, int rank, int world, std::uint32_t epoch)
      : endpoint_(std::make_shared<Endpoint>(rt, rank, world, epoch)), phantom_(rt.is_phantom()) {}

  // Only its size travels.
  static bool is_phantom(const View& view) { return view.bytes > 0 && view.data == nullptr; }

  void send_to_self(const Identity& id, const Fingerprint& fp, const View& view, Completion* done,
                    std::uint64_t cookie);
  void control_to_self(ByteView bytes);

  const std::shared_ptr<Endpoint> endpoint_;
  const bool phantom_;
  BufferPool pool_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace trireme::net
