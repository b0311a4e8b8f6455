#include "trireme/net/shm/shm.h"

#include <array>
#include <cstring>
#include <utility>

#include "trireme/net/shm/peer.h"

namespace trireme::net {
namespace shm {
namespace {

class ShmTransport final : public Transport, private runtime::Poller {
 public:
  ShmTransport(runtime::Runtime& rt, const ConnectOptions& options, Connected connected)
      : endpoint_(std::make_shared<Endpoint>(rt, options.rank, options.world, options.epoch)),
        phantom_(rt.is_phantom()),
        segment_(std::move(connected.segment)) {
    for (int rank = 0; rank < options.world; ++rank) {
      PeerLink& link = connected.links[static_cast<std::size_t>(rank)];
      peers_.push_back(rank == options.rank ? nullptr
                                            : std::make_unique<Peer>(*endpoint_, pool_, rank, std::move(link),
                                                                     segment_->data(), options.ring_bytes));
    }
    rt.network().add_poller(this);
    for (int rank = 0; rank < options.world; ++rank)
      if (rank != options.rank) rt.spawn(watch(peer(rank).shared_stream(), endpoint_, this, rank));
  }
  ~ShmTransport() override {
    endpoint_->rt().network().remove_poller(this);
    endpoint_->close();
    for (const auto& p : peers_)
      if (p) p->stream().close();
  }

  int rank() const override { return endpoint_->rank(); }
  int world() const override { return endpoint_->world(); }
  std::string_view name() const override { return "shm"; }
  Capabilities capabilities() const override { return {}; }

  void send(int to, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(to, id, done, cookie)) return;
    FrameHeader header{};
    header.magic = kFrameMagic;
    header.type = FrameType::kData;
    header.high = id.high();
    header.low = id.low();
    header.fingerprint = fp.pack();
    header.bytes = view.bytes;
    header.phantom = view.bytes > 0 && (view.data == nullptr || phantom_) ? 1 : 0;
    bytes_sent_ += sizeof(header) + (header.phantom != 0 ? view.bytes : round_up(view.bytes));
    if (to == rank()) {
      send_to_self(id, header, view, done, cookie);
    } else if (!peer(to).broken().ok()) {
      endpoint_->complete_later(done, cookie, peer(to).broken());
    } else {
      peer(to).send(header, view.data, endpoint_->begin_send(done, cookie));
    }
  }

  void recv(int from, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(from, id, done, cookie)) return;
    if (from != rank() && !peer(from).broken().ok()) {
      endpoint_->complete_later(done, cookie, peer(from).broken());
      return;
    }
    const std::uint64_t taken = endpoint_->recv(from, id, fp.pack(), view, done, cookie);
    if (from == rank()) return;
    peer(from).released(taken);
    if (peer(from).stands_on_loop()) poll_soon();
  }

  void poison(Status reason, Callback drained) override {
    if (!endpoint_->poisoned())
      for (const auto& p : peers_)
        if (p) p->abandon(reason);
    endpoint_->poison(std::move(reason), std::move(drained));
  }

  void send_control(int to, ByteView bytes) override {
    TR_CHECK(to >= 0 && to < world() && bytes.size() <= kMaxControlBytes, "peer {}, {} bytes", to,
             bytes.size());
    bytes_sent_ += sizeof(FrameHeader) + round_up(bytes.size());
    if (to != rank()) {
      peer(to).send_control(bytes);
      return;
    }
    endpoint_->rt().post([endpoint = endpoint_, copy = Bytes(bytes.begin(), bytes.end())] {
      endpoint->control_on_loop(endpoint->rank(), copy);
    });
  }
  void set_control_handler(std::function<void(int, ByteView)> handler) override {
    endpoint_->set_control_handler(std::move(handler));
  }
  void set_closed_handler(std::function<void(int)> handler) override {
    endpoint_->set_closed_handler(std::move(handler));
  }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

 private:
  Peer& peer(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  void send_to_self(const Identity& id, const FrameHeader& header, View view, Completion* done,
                    std::uint64_t cookie) {
    ArrivedMessage message{header.fingerprint, nullptr, view.bytes};
    if (header.phantom == 0 && view.bytes > 0) {
      auto copy = pool_.take(view.bytes);
      std::memcpy(copy.get(), view.data, view.bytes);
      message.payload = std::move(copy);
    }
    auto shared = std::make_shared<ArrivedMessage>(std::move(message));
    endpoint_->rt().post([endpoint = endpoint_, id, shared] {
      endpoint->arrived_on_loop(endpoint->rank(), id, std::move(*shared));
    });
    endpoint_->end_send_later(endpoint_->begin_send(done, cookie), ok_status());
  }

  bool poll_on_loop() override {
    bool progress = false;
    for (std::size_t i = 0; i < peers_.size() && !endpoint_->closed(); ++i)
      if (peers_[i]) progress |= peers_[i]->poll_on_loop();
    return progress;
  }
  void poll_soon() {
    endpoint_->rt().post([this, endpoint = endpoint_] {
      if (!endpoint->closed()) poll_on_loop();
    });
  }

  // The stream carries nothing after the handshake; its end is the end of the peer. What the peer wrote
  // before comes first.
  static runtime::Task<void> watch(std::shared_ptr<runtime::Stream> stream,
                                   std::shared_ptr<Endpoint> endpoint, ShmTransport* self, int rank) {
    std::array<std::byte, 64> scratch;
    const MutByteView into(scratch);
    for (;;) {
      auto got = co_await stream->read_some(into, kForever);
      if (!got.ok() || *got == 0) break;
    }
    if (endpoint->closed()) co_return;
    while (self->peer(rank).poll_on_loop() && !endpoint->closed()) {
    }
    endpoint->closed_on_loop(rank);
  }

  std::shared_ptr<Endpoint> endpoint_;
  const bool phantom_;
  std::unique_ptr<runtime::SharedSegment> segment_;
  BufferPool pool_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace
}  // namespace shm

runtime::Task<Result<std::unique_ptr<Transport>>> connect_shm(runtime::Runtime& rt, ConnectOptions options) {
  auto connected = co_await shm::rendezvous(rt, options);
  if (!connected.ok()) co_return connected.status();
  co_return std::unique_ptr<Transport>(
      std::make_unique<shm::ShmTransport>(rt, options, std::move(connected).value()));
}

}  // namespace trireme::net
