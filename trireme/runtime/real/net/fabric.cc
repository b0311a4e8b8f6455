#include "trireme/runtime/real/net/fabric.h"

#include <utility>

namespace trireme::runtime {

// What waits for one endpoint. Senders push from their threads; the owner drains on its loop.
class Fabric::Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  enum class State { kAwaited, kOpen, kClosed };

  bool open(real::Loop& loop) {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kAwaited) return false;
    state_ = State::kOpen;
    loop_ = &loop;
    return true;
  }

  bool is_closed() {
    const std::lock_guard lock(mutex_);
    return state_ == State::kClosed;
  }

  void close() {
    std::vector<Item> dying;
    std::shared_ptr<Handlers> handlers;
    const std::lock_guard lock(mutex_);
    state_ = State::kClosed;
    loop_ = nullptr;
    dying.swap(items_);
    handlers.swap(handlers_);
  }

  // False, and the item untouched, when the endpoint has closed.
  bool push(Item& item) {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kClosed) return false;
    items_.push_back(std::move(item));
    if (items_.size() == 1) ask_for_drain_locked();
    return true;
  }

  // That `from` closed. An inbox that is not open yet hears it only when packets of `from` wait in it.
  void push_closed(int from) {
    {
      const std::lock_guard lock(mutex_);
      bool concerned = state_ == State::kOpen;
      if (state_ == State::kAwaited)
        for (const Item& item : items_) concerned |= item.from == from;
      if (!concerned) return;
    }
    Item item{.from = from, .closed = true, .packet = {}};
    push(item);
  }

  void set_handlers(std::function<void(int, Packet)> on_packet, std::function<void(int)> on_closed) {
    auto handlers = std::make_shared<Handlers>(Handlers{std::move(on_packet), std::move(on_closed)});
    const std::lock_guard lock(mutex_);
    handlers_.swap(handlers);  // the old ones die after the lock
    if (!items_.empty()) ask_for_drain_locked();
  }

 private:
  struct Handlers {
    std::function<void(int, Packet)> on_packet;
    std::function<void(int)> on_closed;
  };

  // Under the lock, so that close() (and then the end of the loop) cannot come between.
  void ask_for_drain_locked() {
    if (loop_ == nullptr || !handlers_) return;
    loop_->post([self = shared_from_this()] { self->drain_on_loop(); });
  }

  void drain_on_loop() {
    std::vector<Item> batch = std::move(spare_);
    {
      const std::lock_guard lock(mutex_);
      batch.swap(items_);
    }
    for (Item& item : batch) {
      const std::shared_ptr<Handlers> handlers =
          handlers_;  // a handler may replace them or close the endpoint
      if (!handlers) break;
      if (item.closed) {
        if (handlers->on_closed) handlers->on_closed(item.from);
      } else if (handlers->on_packet) {
        handlers->on_packet(item.from, std::move(item.packet));
      }
    }
    batch.clear();
    spare_ = std::move(batch);
  }

  std::mutex mutex_;
  State state_ = State::kAwaited;       // guarded by mutex_
  std::vector<Item> items_;             // guarded by mutex_
  real::Loop* loop_ = nullptr;          // guarded by mutex_
  std::shared_ptr<Handlers> handlers_;  // written on the loop under mutex_, so the loop may read it without
  std::vector<Item> spare_;             // on the loop: storage of the last batch
};

namespace {

class RealEndpoint final : public FabricEndpoint {
 public:
  RealEndpoint(std::shared_ptr<Fabric> fabric, int id, real::Loop& loop, std::shared_ptr<Fabric::Inbox> inbox)
      : fabric_(std::move(fabric)), id_(id), loop_(loop), inbox_(std::move(inbox)) {}
  ~RealEndpoint() override {
    inbox_->close();
    fabric_->tell_closed(id_);
  }

  int id() const override { return id_; }

  void send(int to, Packet packet) override {
    auto& inbox = peers_[to];
    if (!inbox) inbox = fabric_->inbox(to);
    Fabric::Item item{.from = id_, .closed = false, .packet = std::move(packet)};
    if (inbox->push(item)) return;
    // Closed: dropped, unless a new endpoint of that id was opened since.
    auto now = fabric_->inbox(to);
    if (std::exchange(inbox, now) != now) now->push(item);
  }

  void send(int to, Packet packet, Callback sent) override {
    send(to, std::move(packet));
    if (sent) loop_.post(std::move(sent));
  }

  void set_handlers(std::function<void(int, Packet)> on_packet, std::function<void(int)> on_closed) override {
    inbox_->set_handlers(std::move(on_packet), std::move(on_closed));
  }

 private:
  const std::shared_ptr<Fabric> fabric_;
  const int id_;
  real::Loop& loop_;
  const std::shared_ptr<Fabric::Inbox> inbox_;
  std::map<int, std::shared_ptr<Fabric::Inbox>> peers_;  // looked up once
};

}  // namespace

std::shared_ptr<Fabric> make_fabric() { return std::make_shared<Fabric>(); }

std::shared_ptr<Fabric::Inbox> Fabric::inbox(int id) {
  const std::lock_guard lock(mutex_);
  auto& inbox = inboxes_[id];
  if (!inbox) inbox = std::make_shared<Inbox>();
  return inbox;
}

Result<std::unique_ptr<FabricEndpoint>> Fabric::open(int id, real::Loop& loop) {
  std::shared_ptr<Inbox> mine;
  {
    const std::lock_guard lock(mutex_);
    auto& inbox = inboxes_[id];
    if (!inbox || inbox->is_closed()) inbox = std::make_shared<Inbox>();
    mine = inbox;
  }
  if (!mine->open(loop))
    return error(Code::kExists, "[network] mailbox {} is already open: ids are unique within a fabric", id);
  return std::unique_ptr<FabricEndpoint>(
      std::make_unique<RealEndpoint>(shared_from_this(), id, loop, std::move(mine)));
}

void Fabric::tell_closed(int id) {
  std::vector<std::shared_ptr<Inbox>> others;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [other, inbox] : inboxes_)
      if (other != id) others.push_back(inbox);
  }
  for (auto& other : others) other->push_closed(id);
}

}  // namespace trireme::runtime
