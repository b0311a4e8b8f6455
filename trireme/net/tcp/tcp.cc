#include "trireme/net/tcp/tcp.h"

#include <cstring>
#include <utility>

#include "trireme/net/tcp/peer.h"

namespace trireme::net {
namespace tcp {
namespace {

// A peer that went has closed both connections; this long after the first the second is not waited for.
constexpr TimeNs kSecondCloseGrace = 20 * kMilli;

class TcpTransport final : public Transport, private runtime::Poller {
 public:
  TcpTransport(runtime::Runtime& rt, const ConnectOptions& options, std::vector<PeerStreams> streams)
      : endpoint_(std::make_shared<Endpoint>(rt, options.rank, options.world, options.epoch)),
        phantom_(rt.is_phantom()) {
    for (int rank = 0; rank < options.world; ++rank)
      peers_.push_back(rank == options.rank
                           ? nullptr
                           : std::make_unique<Peer>(*endpoint_, pool_, rank,
                                                    std::move(streams[static_cast<std::size_t>(rank)])));
    closing_.resize(peers_.size());
    rt.network().add_poller(this);
  }
  ~TcpTransport() override {
    endpoint_->rt().network().remove_poller(this);
    endpoint_->close();
    for (const auto& p : peers_)
      if (p) p->close();
  }

  int rank() const override { return endpoint_->rank(); }
  int world() const override { return endpoint_->world(); }
  std::string_view name() const override { return "tcp"; }
  Capabilities capabilities() const override { return {}; }

  void send(int to, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(to, id, done, cookie)) return;
    FrameHeader header;
    header.high = id.high();
    header.low = id.low();
    header.fingerprint = fp.pack();
    header.message_bytes = view.bytes;
    header.phantom = view.bytes > 0 && (view.data == nullptr || phantom_);
    bytes_sent_ += wire_bytes(header);
    if (to == rank()) {
      send_to_self(id, header, view, done, cookie);
    } else if (!peer(to).broken().ok()) {
      endpoint_->complete_later(done, cookie, peer(to).broken());
    } else if (view.bytes > kMaxMessageBytes) {
      endpoint_->complete_later(
          done, cookie,
          error(Code::kInvalid, "[net] a message is too long: got {} bytes, expected at most {}", view.bytes,
                kMaxMessageBytes));
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
    peer(from).posted(taken);
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
    bytes_sent_ += kFrameHeaderBytes + bytes.size() + kFrameTrailerBytes;
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
  void visit_waiting(const WaitingVisitor& visit) const override {
    endpoint_->matcher().visit_arrived(visit);
  }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

 private:
  Peer& peer(int rank) { return *peers_[static_cast<std::size_t>(rank)]; }

  static std::uint64_t wire_bytes(const FrameHeader& header) {
    const std::uint64_t payload = header.phantom ? 0 : header.message_bytes;
    const std::uint64_t frames =
        std::max<std::uint64_t>(1, (payload + kMaxFramePayload - 1) / kMaxFramePayload);
    return header.message_bytes + frames * (kFrameHeaderBytes + (payload > 0 ? kFrameTrailerBytes : 0));
  }

  void send_to_self(const Identity& id, const FrameHeader& header, View view, Completion* done,
                    std::uint64_t cookie) {
    ArrivedMessage message{header.fingerprint, nullptr, view.bytes};
    if (!header.phantom && view.bytes > 0) {
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
    const std::shared_ptr<Endpoint> endpoint = endpoint_;  // a handler may destroy this transport
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!peers_[i]) continue;
      progress |= peers_[i]->poll_on_loop();
      if (endpoint->closed()) return progress;
      if (peers_[i]->ending() && closing_[i] != Closing::kTold) note_closing(static_cast<int>(i));
      if (endpoint->closed()) return progress;
    }
    return progress;
  }

  // What the peer sent before it closed comes first: both connections are read to their ends.
  void note_closing(int rank) {
    Closing& state = closing_[static_cast<std::size_t>(rank)];
    if (peer(rank).ended()) {
      state = Closing::kTold;
      endpoint_->closed_on_loop(rank);
    } else if (std::exchange(state, Closing::kWaits) == Closing::kNo) {
      endpoint_->rt().call_at(endpoint_->rt().now() + kSecondCloseGrace,
                              [endpoint = endpoint_, rank] { endpoint->closed_on_loop(rank); });
    }
  }
  void poll_soon() {
    endpoint_->rt().post([this, endpoint = endpoint_] {
      if (!endpoint->closed()) poll_on_loop();
    });
  }

  enum class Closing : std::uint8_t { kNo, kWaits, kTold };
  std::shared_ptr<Endpoint> endpoint_;
  const bool phantom_;
  BufferPool pool_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Closing> closing_;
  std::uint64_t bytes_sent_ = 0;
};

}  // namespace
}  // namespace tcp

runtime::Task<Result<std::unique_ptr<Transport>>> connect_tcp(runtime::Runtime& rt, ConnectOptions options) {
  const TimeNs deadline = rt.now() + options.deadline;
  auto met = co_await meet(rt, options);
  if (!met.ok()) co_return met.status();
  // Whoever came late has used up the common time: the connections get a little of their own.
  const TimeNs mesh_deadline = std::max(deadline, rt.now() + 5 * kSecond);
  auto streams = co_await tcp::connect_mesh(rt, options, std::move(met).value(), mesh_deadline);
  if (!streams.ok()) co_return streams.status();
  co_return std::unique_ptr<Transport>(
      std::make_unique<tcp::TcpTransport>(rt, options, std::move(streams).value()));
}

}  // namespace trireme::net
