#include "tests/comm/mute.h"

#include <deque>
#include <utility>

namespace trireme::comm::testing {
namespace {

class MuteTransport final : public net::Transport, public Mute, private net::Completion {
 public:
  MuteTransport(runtime::Runtime& rt, std::unique_ptr<net::Transport> inner)
      : rt_(rt), inner_(std::move(inner)), alive_(std::make_shared<bool>(true)) {}
  ~MuteTransport() override {
    *alive_ = false;
    if (timer_ != 0) rt_.cancel_timer(timer_);
  }

  void begin(TimeNs duration) override {
    muted_ = true;
    if (timer_ != 0) rt_.cancel_timer(std::exchange(timer_, 0));
    if (duration == kForever) return;
    timer_ = rt_.call_at(rt_.now() + duration, [this] {
      timer_ = 0;
      muted_ = false;
      const std::shared_ptr<bool> alive = alive_;
      release(data_, *alive);
      release(words_, *alive);
    });
  }

  int rank() const override { return inner_->rank(); }
  int world() const override { return inner_->world(); }
  std::string_view name() const override { return inner_->name(); }
  net::Capabilities capabilities() const override {
    return {.survives_loss = inner_->capabilities().survives_loss};
  }

  void send(int peer, const net::Identity& id, const net::Fingerprint& fp, net::View view,
            net::Completion* done, std::uint64_t cookie) override {
    when_heard(data_, [=, this] { inner_->send(peer, id, fp, view, done, cookie); });
  }
  // What arrives meanwhile is heard of later.
  void recv(int peer, const net::Identity& id, const net::Fingerprint& fp, net::View view,
            net::Completion* done, std::uint64_t cookie) override {
    std::uint64_t slot = recvs_.size();
    if (free_.empty()) {
      recvs_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    recvs_[slot] = {done, cookie};
    inner_->recv(peer, id, fp, view, this, slot);
  }
  void poison(Status reason, Callback drained) override {
    poison_ = reason;
    inner_->poison(reason, {});
    // The data that was held ends with the reason, before `drained`; nobody hears of it.
    rt_.post([this, alive = alive_, reason = std::move(reason), drained = std::move(drained)]() mutable {
      release(data_, *alive);
      if (*alive) inner_->poison(std::move(reason), std::move(drained));
    });
  }
  void forget_peer(int peer, const Status& why) override { inner_->forget_peer(peer, why); }
  void forget_group(std::uint16_t group, const Status& why) override { inner_->forget_group(group, why); }
  void send_control(int peer, ByteView bytes) override {
    when_heard(words_,
               [this, peer, copy = Bytes(bytes.begin(), bytes.end())] { inner_->send_control(peer, copy); });
  }
  void set_control_handler(std::function<void(int, ByteView)> handler) override {
    on_control_ = std::move(handler);
    inner_->set_control_handler(!on_control_ ? on_control_ : [this](int peer, ByteView bytes) {
      when_heard(words_, [this, peer, copy = Bytes(bytes.begin(), bytes.end())] {
        if (on_control_) on_control_(peer, copy);
      });
    });
  }
  void set_closed_handler(std::function<void(int)> handler) override {
    on_closed_ = std::move(handler);
    inner_->set_closed_handler(!on_closed_ ? on_closed_ : [this](int peer) {
      when_heard(words_, [this, peer] {
        if (on_closed_) on_closed_(peer);
      });
    });
  }
  void visit_waiting(const WaitingVisitor& visit) const override { inner_->visit_waiting(visit); }
  std::uint64_t bytes_sent() const override { return inner_->bytes_sent(); }

 private:
  struct Recv {
    net::Completion* done = nullptr;
    std::uint64_t cookie = 0;
  };

  using Held = std::deque<std::function<void()>>;

  template <typename Action>
  void when_heard(Held& held, Action action) {
    if (muted_ && (&held != &data_ || poison_.ok()))
      held.emplace_back(std::move(action));
    else
      action();
  }
  void on_complete(std::uint64_t slot, const Status& status) override {
    when_heard(data_, [this, slot, status] {
      const Recv recv = recvs_[slot];
      free_.push_back(slot);
      recv.done->on_complete(recv.cookie, poison_.ok() ? status : poison_);
    });
  }
  // Each may do anything, also end this object.
  static void release(Held& held, const bool& alive) {
    while (alive && !held.empty()) {
      const std::function<void()> action = std::move(held.front());
      held.pop_front();
      action();
    }
  }

  runtime::Runtime& rt_;
  std::unique_ptr<net::Transport> inner_;
  std::shared_ptr<bool> alive_;
  bool muted_ = false;
  runtime::TimerId timer_ = 0;
  Held data_, words_;  // sends and completions; control messages and closed notices
  std::vector<Recv> recvs_;
  std::vector<std::uint64_t> free_;
  std::function<void(int, ByteView)> on_control_;
  std::function<void(int)> on_closed_;
  Status poison_;
};

}  // namespace

std::unique_ptr<net::Transport> make_mute_transport(runtime::Runtime& rt,
                                                    std::unique_ptr<net::Transport> inner, Mute** mute) {
  auto made = std::make_unique<MuteTransport>(rt, std::move(inner));
  *mute = made.get();
  return made;
}

}  // namespace trireme::comm::testing
