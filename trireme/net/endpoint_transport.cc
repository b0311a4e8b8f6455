#include "trireme/net/endpoint_transport.h"

#include <cstring>

namespace trireme::net {

void EndpointTransport::send_to_self(const Identity& id, const Fingerprint& fp, const View& view,
                                     Completion* done, std::uint64_t cookie) {
  auto message = std::make_shared<ArrivedMessage>(ArrivedMessage{fp.pack(), nullptr, view.bytes});
  if (view.bytes > 0 && !is_phantom(view)) {
    auto copy = pool_.take(view.bytes);
    std::memcpy(copy.get(), view.data, view.bytes);
    message->payload = std::move(copy);
  }
  endpoint_->rt().post([endpoint = endpoint_, id, message] {
    endpoint->arrived_on_loop(endpoint->rank(), id, std::move(*message));
  });
  endpoint_->end_send_later(endpoint_->begin_send(done, cookie), ok_status());
}

void EndpointTransport::control_to_self(ByteView bytes) {
  endpoint_->rt().post([endpoint = endpoint_, copy = Bytes(bytes.begin(), bytes.end())] {
    endpoint->control_on_loop(endpoint->rank(), copy);
  });
}

}  // namespace trireme::net
