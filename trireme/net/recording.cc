// A transport that notes every data message and passes everything on.
#include "trireme/net/transport.h"

namespace trireme::net {
namespace {

class RecordingTransport final : public Transport {
 public:
  RecordingTransport(std::unique_ptr<Transport> inner, std::vector<SendRecord>* log)
      : inner_(std::move(inner)), log_(log) {}

  int rank() const override { return inner_->rank(); }
  int world() const override { return inner_->world(); }
  std::string_view name() const override { return inner_->name(); }
  Capabilities capabilities() const override { return inner_->capabilities(); }
  int host_of(int peer) const override { return inner_->host_of(peer); }

  void send(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    log_->push_back({peer, id, view.bytes});
    inner_->send(peer, id, fp, view, done, cookie);
  }
  void recv(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
            std::uint64_t cookie) override {
    inner_->recv(peer, id, fp, view, done, cookie);
  }
  void poison(Status reason, Callback drained) override {
    inner_->poison(std::move(reason), std::move(drained));
  }
  void forget_peer(int peer, const Status& why) override { inner_->forget_peer(peer, why); }
  void forget_group(std::uint16_t group, const Status& why) override { inner_->forget_group(group, why); }
  std::size_t most_control_bytes() const override { return inner_->most_control_bytes(); }
  void send_control(int peer, ByteView bytes) override { inner_->send_control(peer, bytes); }
  void set_control_handler(std::function<void(int, ByteView)> handler) override {
    inner_->set_control_handler(std::move(handler));
  }
  void set_closed_handler(std::function<void(int)> handler) override {
    inner_->set_closed_handler(std::move(handler));
  }
  runtime::Task<Result<std::unique_ptr<Window>>> make_window(std::uint64_t bytes, TimeNs deadline) override {
    return inner_->make_window(bytes, deadline);
  }
  Window* exchange() override { return inner_->exchange(); }
  std::shared_ptr<std::byte> allocate_exchange(std::uint64_t bytes) override {
    return inner_->allocate_exchange(bytes);
  }
  void visit_waiting(const WaitingVisitor& visit) const override { inner_->visit_waiting(visit); }
  Motion motion() const override { return inner_->motion(); }
  std::uint64_t bytes_sent() const override { return inner_->bytes_sent(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::vector<SendRecord>* log_;
};

}  // namespace

std::unique_ptr<Transport> make_recording_transport(std::unique_ptr<Transport> inner,
                                                    std::vector<SendRecord>* log) {
  TR_CHECK(inner != nullptr && log != nullptr, "a recording transport needs a transport and a log");
  return std::make_unique<RecordingTransport>(std::move(inner), log);
}

}  // namespace trireme::net
