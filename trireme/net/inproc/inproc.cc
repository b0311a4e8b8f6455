#include "trireme/net/inproc/inproc.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/net/endpoint_transport.h"
#include "trireme/runtime/network.h"
#include "trireme/runtime/sync.h"
#include "trireme/runtime/urgent.h"

namespace trireme::net {
namespace {

constexpr std::uint64_t kData = 0, kControl = 1, kHello = 2, kWelcome = 3;

class InprocTransport final : public EndpointTransport {
 public:
  InprocTransport(runtime::Runtime& rt, const ConnectOptions& options,
                  std::unique_ptr<runtime::FabricEndpoint> fabric_endpoint)
      : EndpointTransport(rt, options.rank, options.world, options.epoch),
        base_(options.endpoint_base),
        met_(rt),
        fabric_endpoint_(std::move(fabric_endpoint)) {
    // The endpoint, and with it the handlers, goes before everything they use.
    fabric_endpoint_->set_handlers(
        [this](int from, runtime::Packet packet) { receive_on_loop(from - base_, std::move(packet)); },
        [this](int peer) { closed_on_loop(peer - base_); });
  }
  ~InprocTransport() override { endpoint_->close(); }

  // Everybody says hello to rank 0, which welcomes all when the last has come. What arrives meanwhile waits.
  runtime::Task<Status> meet(TimeNs deadline) {
    if (world() == 1) co_return ok_status();
    arrived_.assign(static_cast<std::size_t>(world()), false);
    arrived_[0] = true;
    if (rank() != 0) fabric_endpoint_->send(base_, note(kHello));
    for (const int peer : std::exchange(early_hellos_, {})) hello_on_loop(peer);
    const bool answered = co_await met_.wait_until(deadline);
    if (answered) co_return met_.value();
    std::string missing;
    for (int r = 0; r < world(); ++r)
      if (!arrived_[static_cast<std::size_t>(r)])
        missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
    if (rank() != 0) co_return error(Code::kDeadline, "[net] rank 0 did not welcome rank {} in time", rank());
    co_return error(Code::kDeadline, "[net] not all ranks arrived in time: missing are {}; see their logs",
                    missing);
  }

  std::string_view name() const override { return "inproc"; }
  Capabilities capabilities() const override { return {.survives_loss = true}; }
  // A virtual world is one process with many machines.
  int host_of(int peer) const override { return endpoint_->rt().is_virtual() ? peer : 0; }

  void send(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(peer, id, done, cookie)) return;
    runtime::Packet packet;
    packet.header = {id.high(), id.low(), fp.pack(), kData, 0, 0};
    packet.bytes = view.bytes;
    if (view.bytes > 0 && !is_phantom(view)) packet.payload = copy(view.data, view.bytes);
    bytes_sent_ += view.bytes + sizeof(packet.header);
    const SendToken token = endpoint_->begin_send(done, cookie, peer);
    fabric_endpoint_->send(base_ + peer, std::move(packet),
                           [endpoint = endpoint_, token] { endpoint->end_send_on_loop(token, ok_status()); });
  }

  void recv(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(peer, id, done, cookie)) return;
    endpoint_->recv(peer, id, fp.pack(), view, done, cookie);
  }

  void poison(Status reason, Callback drained) override {
    endpoint_->poison(std::move(reason), std::move(drained));
  }

  void forget_peer(int peer, const Status& why) override { endpoint_->forget_peer(peer, why); }
  void forget_group(std::uint16_t group, const Status& why) override {
    endpoint_->forget_group(group, why, [](int, bool, std::uint64_t) {});
  }

  Motion motion() const override { return {.on_the_way = fabric_endpoint_->has_traffic()}; }

  void send_control(int peer, ByteView bytes) override {
    TR_CHECK(peer >= 0 && peer < world() && bytes.size() <= kMaxControlBytes, "peer {}, {} bytes", peer,
             bytes.size());
    runtime::Packet packet;
    packet.header[3] = kControl;
    runtime::mark_urgent(packet);  // as TCP's connection for control messages, which data does not hold up
    packet.bytes = bytes.size();
    if (!bytes.empty()) packet.payload = copy(bytes.data(), bytes.size());
    bytes_sent_ += bytes.size() + sizeof(packet.header);
    fabric_endpoint_->send(base_ + peer, std::move(packet));
  }

 private:
  std::shared_ptr<const std::byte> copy(const std::byte* data, std::size_t bytes) {
    std::shared_ptr<std::byte> buffer = pool_.take(bytes);
    std::memcpy(buffer.get(), data, bytes);
    return buffer;
  }

  static runtime::Packet note(std::uint64_t type) {
    runtime::Packet packet;
    packet.header[3] = type;
    return packet;
  }

  void receive_on_loop(int peer, runtime::Packet packet) {
    if (peer < 0 || peer >= world()) return;  // another job on the same fabric
    switch (packet.header[3]) {
      case kData:
        endpoint_->arrived_on_loop(peer, Identity::unpack(packet.header[0], packet.header[1]),
                                   {packet.header[2], std::move(packet.payload), packet.bytes});
        break;
      case kControl:
        if (packet.bytes <= kMaxControlBytes)
          endpoint_->control_on_loop(peer, {packet.payload.get(), packet.payload ? packet.bytes : 0});
        break;
      case kHello:
        if (rank() == 0) hello_on_loop(peer);
        break;
      case kWelcome:
        if (peer == 0) met_.set(ok_status());
        break;
      default:
        break;
    }
  }

  void hello_on_loop(int peer) {
    if (arrived_.empty()) return early_hellos_.push_back(peer);
    arrived_[static_cast<std::size_t>(peer)] = true;
    if (!std::all_of(arrived_.begin(), arrived_.end(), [](bool here) { return here; })) return;
    for (int r = 1; r < world(); ++r) fabric_endpoint_->send(base_ + r, note(kWelcome));
    met_.set(ok_status());
  }

  void closed_on_loop(int peer) {
    if (peer >= 0 && peer < world() && !met_.is_set() && (peer == 0 || rank() == 0))
      met_.set(error(Code::kPeerLost, "[net] rank {} ended before all ranks had arrived; see its log", peer));
    endpoint_->closed_on_loop(peer);
  }

  const int base_;
  runtime::OneShot<Status> met_;
  std::vector<bool> arrived_;                                 // rank 0, by rank; empty before meet()
  std::vector<int> early_hellos_;                             // came before meet()
  std::unique_ptr<runtime::FabricEndpoint> fabric_endpoint_;  // last: closes first
};

}  // namespace

runtime::Task<Result<std::unique_ptr<Transport>>> connect_inproc(runtime::Runtime& rt,
                                                                 ConnectOptions options) {
  TR_CO_ASSIGN_OR_RETURN(auto fabric_endpoint,
                         rt.network().open_endpoint(options.endpoint_base + options.rank));
  auto transport = std::make_unique<InprocTransport>(rt, options, std::move(fabric_endpoint));
  const Status met = co_await transport->meet(rt.now() + options.deadline);
  if (!met.ok()) co_return met;
  co_return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace trireme::net
