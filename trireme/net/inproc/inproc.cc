#include "trireme/net/inproc/inproc.h"

#include <cstring>
#include <utility>

#include "trireme/net/buffer_pool.h"
#include "trireme/net/endpoint.h"
#include "trireme/runtime/network.h"

namespace trireme::net {
namespace {

constexpr std::uint64_t kData = 0, kControl = 1;

class InprocTransport final : public Transport {
 public:
  InprocTransport(runtime::Runtime& rt, const ConnectOptions& options,
                  std::unique_ptr<runtime::Mailbox> mailbox)
      : endpoint_(std::make_shared<Endpoint>(rt, options.rank, options.world, options.epoch)),
        base_(options.mailbox_base),
        phantom_(rt.is_phantom()),
        mailbox_(std::move(mailbox)) {
    Endpoint* endpoint = endpoint_.get();  // the mailbox, and with it the handlers, goes before the endpoint
    mailbox_->set_handlers(
        [endpoint, base = base_](int from, runtime::Packet packet) {
          receive_on_loop(*endpoint, from - base, std::move(packet));
        },
        [endpoint, base = base_](int peer) { endpoint->closed_on_loop(peer - base); });
  }
  ~InprocTransport() override { endpoint_->close(); }

  int rank() const override { return endpoint_->rank(); }
  int world() const override { return endpoint_->world(); }
  std::string_view name() const override { return "inproc"; }
  Capabilities capabilities() const override { return {}; }

  void send(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    if (!endpoint_->check_call(peer, id, done, cookie)) return;
    runtime::Packet packet;
    packet.header = {id.high(), id.low(), fp.pack(), kData, 0, 0};
    packet.bytes = view.bytes;
    if (view.data != nullptr && view.bytes > 0 && !phantom_) packet.payload = copy(view.data, view.bytes);
    bytes_sent_ += view.bytes + sizeof(packet.header);
    const SendToken token = endpoint_->begin_send(done, cookie);
    mailbox_->send(base_ + peer, std::move(packet),
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

  void send_control(int peer, ByteView bytes) override {
    TR_CHECK(peer >= 0 && peer < world() && bytes.size() <= kMaxControlBytes, "peer {}, {} bytes", peer,
             bytes.size());
    runtime::Packet packet;
    packet.header[3] = kControl;
    packet.bytes = bytes.size();
    if (!bytes.empty()) packet.payload = copy(bytes.data(), bytes.size());
    bytes_sent_ += bytes.size() + sizeof(packet.header);
    mailbox_->send(base_ + peer, std::move(packet));
  }
  void set_control_handler(std::function<void(int, ByteView)> handler) override {
    endpoint_->set_control_handler(std::move(handler));
  }
  void set_closed_handler(std::function<void(int)> handler) override {
    endpoint_->set_closed_handler(std::move(handler));
  }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }

 private:
  std::shared_ptr<const std::byte> copy(const std::byte* data, std::size_t bytes) {
    std::shared_ptr<std::byte> buffer = pool_.take(bytes);
    std::memcpy(buffer.get(), data, bytes);
    return buffer;
  }

  static void receive_on_loop(Endpoint& endpoint, int peer, runtime::Packet packet) {
    if (peer < 0 || peer >= endpoint.world()) return;  // another job on the same fabric
    if (packet.header[3] == kControl) {
      if (packet.bytes <= kMaxControlBytes)
        endpoint.control_on_loop(peer, {packet.payload.get(), packet.payload ? packet.bytes : 0});
      return;
    }
    endpoint.arrived_on_loop(peer, Identity::unpack(packet.header[0], packet.header[1]),
                             {packet.header[2], std::move(packet.payload), packet.bytes});
  }

  std::shared_ptr<Endpoint> endpoint_;
  const int base_;
  const bool phantom_;
  BufferPool pool_;
  std::uint64_t bytes_sent_ = 0;
  std::unique_ptr<runtime::Mailbox> mailbox_;  // last: closes first
};

}  // namespace

runtime::Task<Result<std::unique_ptr<Transport>>> connect_inproc(runtime::Runtime& rt,
                                                                 ConnectOptions options) {
  TR_CO_ASSIGN_OR_RETURN(auto mailbox, rt.network().open_mailbox(options.mailbox_base + options.rank));
  co_return std::unique_ptr<Transport>(std::make_unique<InprocTransport>(rt, options, std::move(mailbox)));
}

}  // namespace trireme::net
