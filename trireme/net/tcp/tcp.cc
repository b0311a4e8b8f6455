#include "trireme/net/tcp/tcp.h"

#include <algorithm>
#include <utility>

#include "trireme/net/peered_transport.h"
#include "trireme/net/tcp/peer.h"

namespace trireme::net {
namespace tcp {
namespace {

// A peer that went has closed both connections; this long after the first the second is not waited for.
constexpr TimeNs kSecondCloseGrace = 20 * kMilli;

class TcpTransport final : public PeeredTransport<Peer> {
 public:
  TcpTransport(runtime::Runtime& rt, const ConnectOptions& options, std::vector<std::string> hosts,
               std::vector<PeerStreams> streams)
      : PeeredTransport(rt, options.rank, options.world, options.epoch), hosts_(std::move(hosts)) {
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

  std::string_view name() const override { return "tcp"; }
  Capabilities capabilities() const override { return {.survives_loss = true}; }
  // By the addresses at which ranks listen: one host under two names counts as two.
  int host_of(int peer) const override {
    return static_cast<int>(std::find(hosts_.begin(), hosts_.end(), hosts_[static_cast<std::size_t>(peer)]) -
                            hosts_.begin());
  }

  void send(int to, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(to, id, done, cookie)) return;
    FrameHeader header;
    header.high = id.high();
    header.low = id.low();
    header.fingerprint = fp.pack();
    header.message_bytes = view.bytes;
    header.phantom = is_phantom(view);
    bytes_sent_ += wire_bytes(header);
    if (view.bytes > kMaxMessageBytes) {
      endpoint_->complete_later(
          done, cookie,
          error(Code::kInvalid, "[net] a message is too long: got {} bytes, expected at most {}", view.bytes,
                kMaxMessageBytes));
      return;
    }
    hand_over(to, id, fp, header, view, done, cookie);
  }

 private:
  std::uint64_t control_wire_bytes(std::size_t bytes) const override {
    return kFrameHeaderBytes + bytes + kFrameTrailerBytes;
  }

  static std::uint64_t wire_bytes(const FrameHeader& header) {
    const std::uint64_t payload = header.phantom ? 0 : header.message_bytes;
    const std::uint64_t frames =
        std::max<std::uint64_t>(1, (payload + kMaxFramePayload - 1) / kMaxFramePayload);
    return header.message_bytes + frames * (kFrameHeaderBytes + (payload > 0 ? kFrameTrailerBytes : 0));
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

  enum class Closing : std::uint8_t { kNo, kWaits, kTold };
  std::vector<Closing> closing_;
  const std::vector<std::string> hosts_;  // by rank
};

}  // namespace
}  // namespace tcp

runtime::Task<Result<std::unique_ptr<Transport>>> connect_tcp(runtime::Runtime& rt, ConnectOptions options) {
  const TimeNs deadline = rt.now() + options.deadline;
  auto met = co_await meet(rt, options);
  if (!met.ok()) co_return met.status();
  std::vector<std::string> hosts(static_cast<std::size_t>(options.world));  // of one rank: no address
  for (std::size_t i = 0; i < met->addresses.size(); ++i) hosts[i] = met->addresses[i].host;
  // Whoever came late has used up the common time: the connections get a little of their own.
  const TimeNs mesh_deadline = std::max(deadline, rt.now() + 5 * kSecond);
  auto streams = co_await tcp::connect_mesh(rt, options, std::move(met).value(), mesh_deadline);
  if (!streams.ok()) co_return streams.status();
  co_return std::unique_ptr<Transport>(
      std::make_unique<tcp::TcpTransport>(rt, options, std::move(hosts), std::move(streams).value()));
}

}  // namespace trireme::net
