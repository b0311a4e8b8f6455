#include "trireme/runtime/virtual/streams.h"

namespace trireme::runtime::virt {
namespace {

// Puts a OneShot where somebody sets it, and takes it away again even when the waiting frame is destroyed.
class Registered {
 public:
  Registered(std::vector<OneShot<bool>*>& list, OneShot<bool>& shot) : list_(list), shot_(&shot) {
    list_.push_back(shot_);
  }
  ~Registered() { std::erase(list_, shot_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  std::vector<OneShot<bool>*>& list_;
  OneShot<bool>* shot_;
};

class VirtualStream final : public Stream {
 public:
  explicit VirtualStream(std::shared_ptr<StreamEnd> end) : end_(std::move(end)) {}
  ~VirtualStream() override { close(); }

  Task<Result<std::size_t>> read_some(MutByteView into, TimeNs deadline) override {
    const std::shared_ptr<StreamEnd> end = end_;
    if (into.empty()) co_return std::size_t{0};
    TR_CO_RETURN_IF_ERROR(
        co_await wait(end, "bytes", deadline, [](const StreamEnd& e) { return !e.bytes.empty(); }));
    co_return end->read(std::span(&into, 1));
  }

  Task<Status> write_all(ByteView bytes, TimeNs deadline) override {
    if (end_->tcp) return write_through_window(end_, bytes, deadline);
    auto copy = std::make_shared<Bytes>(bytes.begin(), bytes.end());
    return put(bytes.size(), deadline, [copy](StreamEnd& to) {
      if (!copy->empty()) to.bytes.push_back(std::move(*copy));
    });
  }

  Result<std::size_t> try_read(std::span<const MutByteView> into) override {
    if (!end_->tcp) return Stream::try_read(into);
    if (end_->node.dead || end_->node.paused) return std::size_t{0};
    if (end_->closed || (end_->bytes.empty() && end_->peer_closed)) return lost(*end_, "bytes");
    return end_->read(into);
  }
  Result<std::size_t> try_write(std::span<const ByteView> from) override {
    if (!end_->tcp) return Stream::try_write(from);
    if (end_->closed || end_->peer_closed) return lost(*end_, "room");
    if (end_->node.dead) return std::size_t{0};
    return end_->write(from);
  }
  bool may_read() const override { return !end_->bytes.empty() || end_->peer_closed; }
  bool may_write() const override { return !end_->starved; }
  bool has_traffic() const override { return end_->has_traffic(); }
  HostPort local_address() const override { return end_->local; }

  Task<Status> send_segment(SharedSegment& segment, TimeNs deadline) override {
    if (end_->tcp) return Stream::send_segment(segment, deadline);
    auto memory = static_cast<VirtualSegment&>(segment).memory();
    return put(0, deadline, [memory, size = segment.size()](StreamEnd& to) {
      to.segments.push_back(memory);
      to.segment_sizes.push_back(size);
    });
  }

  Task<Result<std::unique_ptr<SharedSegment>>> receive_segment(TimeNs deadline) override {
    const std::shared_ptr<StreamEnd> end = end_;
    if (end->tcp) co_return co_await Stream::receive_segment(deadline);
    TR_CO_RETURN_IF_ERROR(
        co_await wait(end, "a segment", deadline, [](const StreamEnd& e) { return !e.segments.empty(); }));
    if (end->segments.empty()) co_return lost(*end, "a segment");
    std::unique_ptr<SharedSegment> segment =
        std::make_unique<VirtualSegment>(std::move(end->segments.front()), end->segment_sizes.front());
    end->segments.pop_front();
    end->segment_sizes.pop_front();
    co_return std::move(segment);
  }

  Task<Status> send_doorbell(Doorbell& bell, TimeNs deadline) override {
    if (end_->tcp) return Stream::send_doorbell(bell, deadline);
    return put(0, deadline, [target = &static_cast<VirtualDoorbell&>(bell).target()](StreamEnd& to) {
      to.bells.push_back(target);
    });
  }

  Task<Result<std::unique_ptr<Doorbell>>> receive_doorbell(TimeNs deadline) override {
    const std::shared_ptr<StreamEnd> end = end_;
    if (end->tcp) co_return co_await Stream::receive_doorbell(deadline);
    TR_CO_RETURN_IF_ERROR(
        co_await wait(end, "a doorbell", deadline, [](const StreamEnd& e) { return !e.bells.empty(); }));
    if (end->bells.empty()) co_return lost(*end, "a doorbell");
    std::unique_ptr<Doorbell> bell = std::make_unique<VirtualDoorbell>(end->node, *end->bells.front());
    end->bells.pop_front();
    co_return std::move(bell);
  }

  void close() override {
    end_->node.act([end = end_] { end->close(); });
  }

 private:
  static Status lost(const StreamEnd& end, const char* what) {
    return error(Code::kPeerLost,
                 "[runtime] the stream of '{}' ended while it waited for {}: the peer closed it",
                 end.node.name(), what);
  }

  // Waits until `there` holds or the peer closed; kDeadline otherwise.
  static Task<Status> wait(std::shared_ptr<StreamEnd> end, const char* what, TimeNs deadline,
                           bool (*there)(const StreamEnd&)) {
    while (!there(*end) && !end->peer_closed) {
      if (end->closed)
        co_return error(Code::kCancelled, "[runtime] '{}' closed this stream itself", end->node.name());
      OneShot<bool> shot(end->node);
      const Registered registered(end->waiters, shot);
      if (!co_await shot.wait_until(deadline))
        co_return error(Code::kDeadline, "[runtime] '{}' waited for {} on a stream until its deadline",
                        end->node.name(), what);
    }
    co_return Status();
  }

  static Task<Status> write_through_window(std::shared_ptr<StreamEnd> end, ByteView bytes, TimeNs deadline) {
    while (!bytes.empty()) {
      if (end->closed || end->peer_closed) co_return lost(*end, "room");
      if (end->node.dead) co_await end->node.sleep_until(kForever);  // never resumes
      bytes = bytes.subspan(end->write(std::span(&bytes, 1)));
      if (!bytes.empty())
        TR_CO_RETURN_IF_ERROR(
            co_await wait(end, "room", deadline, [](const StreamEnd& e) { return !e.starved; }));
    }
    co_return Status();
  }

  template <typename Apply>
  Task<Status> put(std::uint64_t bytes, TimeNs deadline, Apply apply) {
    return put_on(end_, bytes, deadline, std::move(apply));
  }

  template <typename Apply>
  static Task<Status> put_on(std::shared_ptr<StreamEnd> end, std::uint64_t bytes, TimeNs deadline,
                             Apply apply) {
    if (end->closed || end->peer_closed)
      co_return error(Code::kPeerLost, "[runtime] '{}' cannot write: the stream is closed", end->node.name());
    if (end->node.dead) co_await end->node.sleep_until(kForever);  // never resumes
    // A pause may have struck in this very callback: then the bytes leave after it.
    if (end->node.paused) co_await end->node.sleep_until(end->node.now());
    const TimeNs done = end->to_peer(bytes, std::move(apply));
    if (done > deadline) {
      co_await end->node.sleep_until(deadline);
      co_return error(Code::kDeadline, "[runtime] '{}' could not write {} bytes by the deadline",
                      end->node.name(), bytes);
    }
    co_await end->node.sleep_until(done);
    co_return Status();
  }

  std::shared_ptr<StreamEnd> end_;
};

}  // namespace

std::unique_ptr<Stream> make_virtual_stream(std::shared_ptr<StreamEnd> end) {
  return std::make_unique<VirtualStream>(std::move(end));
}

}  // namespace trireme::runtime::virt
