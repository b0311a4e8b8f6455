// PeeredTransport: transports with an object per peer that moves bytes when it is polled (shm, tcp).
//
// A Peer has send(header, data, token), send_control(bytes), posted(taken bytes), stands_on_loop(), broken(),
// abandon(reason), abandon_recv(group, reason), dropped(recvs, taken bytes), motion().
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "trireme/net/endpoint_transport.h"
#include "trireme/runtime/network.h"

namespace trireme::net {

template <typename Peer>
class PeeredTransport : public EndpointTransport, protected runtime::Poller {
 public:
  void recv(int from, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) final {
    if (!endpoint_->check_call(from, id, done, cookie)) return;
    if (from != rank() && !peer(from).broken().ok()) {
      endpoint_->complete_later(done, cookie, peer(from).broken());
      return;
    }
    const std::uint64_t taken = endpoint_->recv(from, id, fp.pack(), view, done, cookie);
    if (from == rank()) return;
    peer(from).posted(taken);
    if (peer(from).stands_on_loop()) poll_soon();
  }

  void poison(Status reason, Callback drained) final {
    if (!endpoint_->poisoned())
      for (const auto& p : peers_)
        if (p) p->abandon(reason);
    endpoint_->poison(std::move(reason), std::move(drained));
  }

  void forget_peer(int lost, const Status& why) final {
    if (endpoint_->poisoned()) return;
    peer(lost).abandon(why);
    endpoint_->forget_peer(lost, why);
  }

  void forget_group(std::uint16_t group, const Status& why) final {
    if (endpoint_->poisoned()) return;
    for (const auto& p : peers_)
      if (p) p->abandon_recv(group, why);
    endpoint_->forget_group(group, why, [this](int from, bool is_recv, std::uint64_t bytes) {
      if (from != rank()) peer(from).dropped(is_recv ? 1 : 0, bytes);
    });
    poll_soon();  // a message that stood may be refused now
  }

  Motion motion() const final {
    Motion all;
    for (const auto& p : peers_) {
      const Motion one = p ? p->motion() : Motion();
      all.moved_bytes += one.moved_bytes;
      all.on_the_way |= one.on_the_way;
    }
    return all;
  }

  void send_control(int to, ByteView bytes) final {
    TR_CHECK(to >= 0 && to < world() && bytes.size() <= kMaxControlBytes, "peer {}, {} bytes", to,
             bytes.size());
    bytes_sent_ += control_wire_bytes(bytes.size());
    if (to == rank())
      control_to_self(bytes);
    else
      peer(to).send_control(bytes);
  }

 protected:
  using EndpointTransport::EndpointTransport;

  virtual std::uint64_t control_wire_bytes(std::size_t bytes) const = 0;

  Peer& peer(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  // The end of send(), once the call was checked and the header filled in.
  template <typename Header>
  void hand_over(int to, const Identity& id, const Fingerprint& fp, const Header& header, const View& view,
                 Completion* done, std::uint64_t cookie) {
    if (to == rank())
      send_to_self(id, fp, view, done, cookie);
    else if (!peer(to).broken().ok())
      endpoint_->complete_later(done, cookie, peer(to).broken());
    else
      peer(to).send(header, view.data, endpoint_->begin_send(done, cookie, to));
  }

  void poll_soon() {
    endpoint_->rt().post([this, endpoint = endpoint_] {
      if (!endpoint->closed()) poll_on_loop();
    });
  }

  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: its own
};

}  // namespace trireme::net
