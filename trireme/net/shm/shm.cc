#include "trireme/net/shm/shm.h"

#include <array>
#include <utility>

#include "trireme/net/peered_transport.h"
#include "trireme/net/shm/peer.h"
#include "trireme/net/shm/window.h"
#include "trireme/runtime/sync.h"

namespace trireme::net {
namespace shm {
namespace {

// Window offsets travel under an identity that no plan has.
constexpr std::uint16_t kWindowGroup = 0xFFFF;
constexpr std::uint8_t kWindowKind = 0xFF;

// Waits for the offsets of all peers. Kept by the transport: a message may complete after the deadline.
struct OffsetExchange final : public Completion {
  OffsetExchange(runtime::Runtime& rt, int world, std::uint64_t own)
      : offsets(static_cast<std::size_t>(world), own), mine(own), left(2 * (world - 1)), all(rt) {}
  void on_complete(std::uint64_t /*cookie*/, const Status& status) override {
    if (first_error.ok()) first_error = status;
    if (--left == 0) all.set(true);
  }
  std::vector<std::uint64_t> offsets;
  std::uint64_t mine;
  int left;
  Status first_error;
  runtime::OneShot<bool> all;
};

class ShmTransport final : public PeeredTransport<Peer> {
 public:
  ShmTransport(runtime::Runtime& rt, const ConnectOptions& options, Connected connected)
      : PeeredTransport(rt, options.rank, options.world, options.epoch),
        window_bytes_(options.window_bytes),
        segment_(std::move(connected.segment)) {
    for (int rank = 0; rank < options.world; ++rank) {
      PeerLink& link = connected.links[static_cast<std::size_t>(rank)];
      peers_.push_back(rank == options.rank ? nullptr
                                            : std::make_unique<Peer>(*endpoint_, pool_, rank, std::move(link),
                                                                     segment_->data(), options.ring_bytes));
    }
    make_exchange(options);
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

  std::string_view name() const override { return "shm"; }
  int host_of(int /*peer*/) const override { return 0; }
  Capabilities capabilities() const override {
    return {.peer_memory = !phantom_, .one_sided = true, .survives_loss = true};
  }

  void send(int to, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(to, id, done, cookie)) return;
    RingFrameHeader header{};
    header.magic = kFrameMagic;
    header.type = RingFrameType::kData;
    header.high = id.high();
    header.low = id.low();
    header.fingerprint = fp.pack();
    header.bytes = view.bytes;
    header.phantom = is_phantom(view) ? 1 : 0;
    bytes_sent_ += sizeof(header) + (header.phantom != 0 ? view.bytes : round_up(view.bytes));
    hand_over(to, id, fp, header, view, done, cookie);
  }

  Window* exchange() override { return phantom_ ? nullptr : exchange_.get(); }
  std::shared_ptr<std::byte> allocate_exchange(std::uint64_t bytes) override {
    if (phantom_ || endpoint_->poisoned()) return nullptr;
    const auto offset = host_->area.take(bytes);
    if (!offset.ok()) return nullptr;
    std::byte* at = host_->areas[static_cast<std::size_t>(rank())] + *offset;
    return {at, [host = host_, segment = segment_, from = *offset, bytes](std::byte*) {
              host->area.give_back(from, bytes);
            }};
  }

  runtime::Task<Result<std::unique_ptr<Window>>> make_window(std::uint64_t bytes, TimeNs deadline) override {
    TR_CO_ASSIGN_OR_RETURN(const std::uint64_t own, host_->area.take(bytes));
    auto met = std::make_shared<OffsetExchange>(endpoint_->rt(), world(), own);
    meetings_.push_back(met);
    const Identity id{.epoch = endpoint_->epoch(), .group = kWindowGroup, .step = num_windows_++};
    const Fingerprint fp{.kind = kWindowKind, .count = bytes};
    const auto view = [](std::uint64_t& word) {
      return View{reinterpret_cast<std::byte*>(&word), sizeof(word)};
    };
    for (int p = 0; p < world(); ++p) {
      if (p == rank()) continue;
      recv(p, id, fp, view(met->offsets[static_cast<std::size_t>(p)]), met.get(), 0);
      send(p, id, fp, view(met->mine), met.get(), 0);
    }
    if (world() > 1 && !co_await met->all.wait_until(deadline))
      co_return error(
          Code::kDeadline,
          "[net] rank {} waited for the others to make window {} of {} bytes; every rank must call", rank(),
          id.step, bytes);
    std::erase(meetings_, met);
    for (const std::uint64_t offset : met->offsets)
      if (met->first_error.ok() &&
          (offset % kPage != 0 || offset > window_bytes_ || bytes > window_bytes_ - offset))
        met->first_error =
            error(Code::kCorrupt, "[net] a peer's window is outside its area; restart the job");
    if (!met->first_error.ok()) {
      host_->area.give_back(own, bytes);
      co_return met->first_error;
    }
    co_return make_shm_window(host_, met->offsets, bytes);
  }

 private:
  std::uint64_t control_wire_bytes(std::size_t bytes) const override {
    return sizeof(RingFrameHeader) + round_up(bytes);
  }

  void make_exchange(const ConnectOptions& options) {
    host_ = std::make_shared<WindowHost>(WindowHost{endpoint_, WindowArea(window_bytes_), {}, {}});
    const std::size_t from = window_offset(options.world, options.ring_bytes);
    for (int rank = 0; rank < options.world; ++rank) {
      const bool own = rank == options.rank;
      host_->areas.push_back((own ? segment_->data() : peer(rank).segment().data()) + from);
      host_->bells.push_back(own ? nullptr : &peer(rank).bell());
    }
    const auto first = host_->area.take(kExchangeBytes);
    TR_CHECK(first.ok() && *first == 0);
    exchange_ = make_shm_window(host_, std::vector<std::uint64_t>(host_->areas.size(), 0), window_bytes_);
  }

  bool poll_on_loop() override {
    bool progress = false;
    for (std::size_t i = 0; i < peers_.size() && !endpoint_->closed(); ++i)
      if (peers_[i]) progress |= peers_[i]->poll_on_loop();
    return progress;
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

  const std::uint64_t window_bytes_;
  std::shared_ptr<runtime::SharedSegment> segment_;  // shared: memory of it may outlive the transport
  std::shared_ptr<WindowHost> host_;
  std::unique_ptr<Window> exchange_;
  std::vector<std::shared_ptr<OffsetExchange>> meetings_;
  std::uint32_t num_windows_ = 0;
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
