// Streams of one machine: bytes, segments and doorbells travel over the machine's local link.
#include "trireme/runtime/virtual/local_network.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace trireme::runtime::virt {

// One end of a stream. What the peer sends is put here by events of this end's Runtime.
class StreamEnd : public std::enable_shared_from_this<StreamEnd> {
 public:
  explicit StreamEnd(Node& n) : node(n) {}

  // Resumes whoever waits for something to arrive; waiters look again.
  void wake() {
    for (OneShot<bool>* waiter : std::exchange(waiters, {})) waiter->set(true);
  }

  // Hands `apply` to the peer over the local link; gives the time when the link is free again.
  template <typename Apply>
  TimeNs to_peer(std::uint64_t bytes, Apply apply) {
    Link& link = node.machine().local;
    const Link::Use use = link.take(node.now(), kWireHeaderBytes + bytes);
    last_arrival = std::max(last_arrival, use.end + link.model.latency_ns);
    if (const std::shared_ptr<StreamEnd> to = peer.lock())
      node.core.at(&to->node, last_arrival, Label::kStream, [to, apply = std::move(apply)]() mutable {
        apply(*to);
        to->wake();
      });
    return use.end;
  }

  // Tells the peer that nothing more comes, after what is under way.
  void close() {
    if (closed) return;
    closed = true;
    last_arrival = std::max(last_arrival, node.now() + node.machine().local.model.latency_ns);
    if (const std::shared_ptr<StreamEnd> to = peer.lock())
      node.core.at(&to->node, last_arrival, Label::kStream, [to] {
        to->peer_closed = true;
        to->wake();
      });
  }

  Node& node;
  std::weak_ptr<StreamEnd> peer;
  std::deque<std::byte> bytes;
  std::deque<std::shared_ptr<std::byte>> segments;
  std::deque<std::size_t> segment_sizes;
  std::deque<Node*> bells;
  std::vector<OneShot<bool>*> waiters;
  TimeNs last_arrival = 0;  // at the peer
  bool closed = false, peer_closed = false;
};

struct ListenerState {
  explicit ListenerState(Node& n) : node(n) {}
  Node& node;
  std::deque<std::shared_ptr<StreamEnd>> ready;
  OneShot<bool>* waiter = nullptr;
  bool gone = false;  // its Listener was destroyed: whoever still connects hears the end at once
};

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

// The handle that a shared segment's memory travels in; the memory goes with its last handle.
class VirtualSegment final : public SharedSegment {
 public:
  VirtualSegment(std::shared_ptr<std::byte> memory, std::size_t size)
      : memory_(std::move(memory)), size_(size) {}
  std::byte* data() override { return memory_.get(); }
  std::size_t size() const override { return size_; }
  const std::shared_ptr<std::byte>& memory() const { return memory_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t size_;
};

class VirtualDoorbell final : public Doorbell {
 public:
  VirtualDoorbell(Node& holder, Node& target) : holder_(holder), target_(target) {}
  void ring() override {
    holder_.act([target = &target_] {
      if (!target->dead) target->local_network->poll_after(target->machine().local.model.latency_ns);
    });
  }
  Node& target() const { return target_; }

 private:
  Node &holder_, &target_;
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
    const std::size_t count = std::min(into.size(), end->bytes.size());
    std::copy_n(end->bytes.begin(), count, into.begin());
    end->bytes.erase(end->bytes.begin(), end->bytes.begin() + static_cast<std::ptrdiff_t>(count));
    co_return count;
  }

  Task<Status> write_all(ByteView bytes, TimeNs deadline) override {
    return put(bytes.size(), deadline, [copy = Bytes(bytes.begin(), bytes.end())](StreamEnd& to) {
      to.bytes.insert(to.bytes.end(), copy.begin(), copy.end());
    });
  }

  Task<Status> send_segment(SharedSegment& segment, TimeNs deadline) override {
    auto memory = static_cast<VirtualSegment&>(segment).memory();
    return put(0, deadline, [memory, size = segment.size()](StreamEnd& to) {
      to.segments.push_back(memory);
      to.segment_sizes.push_back(size);
    });
  }

  Task<Result<std::unique_ptr<SharedSegment>>> receive_segment(TimeNs deadline) override {
    const std::shared_ptr<StreamEnd> end = end_;
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
    return put(0, deadline, [target = &static_cast<VirtualDoorbell&>(bell).target()](StreamEnd& to) {
      to.bells.push_back(target);
    });
  }

  Task<Result<std::unique_ptr<Doorbell>>> receive_doorbell(TimeNs deadline) override {
    const std::shared_ptr<StreamEnd> end = end_;
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

class VirtualListener final : public Listener {
 public:
  VirtualListener(std::string path, std::shared_ptr<ListenerState> state)
      : path_(std::move(path)), state_(std::move(state)) {}
  ~VirtualListener() override {
    auto& listeners = state_->node.machine().listeners;
    const auto found = listeners.find(path_);
    if (found != listeners.end() && found->second == state_) listeners.erase(found);
    if (state_->node.dead) return;
    state_->gone = true;
    for (const auto& end : state_->ready) end->close();
  }

  Task<Result<std::unique_ptr<Stream>>> accept(TimeNs deadline) override {
    return accept_on(state_, deadline);
  }

 private:
  static Task<Result<std::unique_ptr<Stream>>> accept_on(std::shared_ptr<ListenerState> state,
                                                         TimeNs deadline) {
    while (state->ready.empty()) {
      OneShot<bool> shot(state->node);
      struct Waits {
        ListenerState& state;
        ~Waits() { state.waiter = nullptr; }
      } const waits{*state};
      state->waiter = &shot;
      if (!co_await shot.wait_until(deadline))
        co_return error(Code::kDeadline, "[runtime] '{}' accepted no connection until its deadline",
                        state->node.name());
    }
    std::unique_ptr<Stream> stream = std::make_unique<VirtualStream>(std::move(state->ready.front()));
    state->ready.pop_front();
    co_return std::move(stream);
  }

  std::string path_;
  std::shared_ptr<ListenerState> state_;
};

}  // namespace

Result<std::unique_ptr<Listener>> LocalNetwork::listen_local(const std::string& path) {
  if (node_.dead) return error(Code::kUnavailable, "[runtime] '{}' is dead: it cannot listen", node_.name());
  Machine& machine = node_.machine();
  auto& slot = machine.listeners[path];
  if (slot)
    return error(Code::kExists, "[runtime] '{}' is taken: '{}' listens there; use another path", path,
                 slot->node.name());
  slot = std::make_shared<ListenerState>(node_);
  for (auto& [wanted, shot] : machine.connecting)
    if (wanted == path) shot->set(true);
  return std::unique_ptr<Listener>(std::make_unique<VirtualListener>(path, slot));
}

Task<Result<std::unique_ptr<Stream>>> LocalNetwork::connect_local(std::string path, TimeNs deadline) {
  Machine& machine = node_.machine();
  while (machine.listeners.count(path) == 0) {
    OneShot<bool> shot(node_);
    struct Waits {
      Machine& machine;
      std::list<std::pair<std::string, OneShot<bool>*>>::iterator entry;
      ~Waits() { machine.connecting.erase(entry); }
    } const waits{machine, machine.connecting.insert(machine.connecting.end(), {path, &shot})};
    if (!co_await shot.wait_until(deadline))
      co_return error(Code::kDeadline, "[runtime] nobody listened at '{}' until the deadline of '{}'", path,
                      node_.name());
  }
  const std::shared_ptr<ListenerState> listener = machine.listeners[path];
  const TimeNs arrival = node_.now() + machine.local.model.latency_ns;
  auto mine = std::make_shared<StreamEnd>(node_), theirs = std::make_shared<StreamEnd>(listener->node);
  mine->peer = theirs;
  theirs->peer = mine;
  mine->last_arrival = theirs->last_arrival = arrival;
  add_stream(mine);
  listener->node.local_network->add_stream(theirs);
  node_.core.at(&listener->node, arrival, Label::kStream, [listener, theirs] {
    if (listener->gone) return theirs->close();
    listener->ready.push_back(theirs);
    if (listener->waiter != nullptr) listener->waiter->set(true);
  });
  // The peer end lives in the event above until it is accepted.
  std::unique_ptr<Stream> stream = std::make_unique<VirtualStream>(mine);
  co_await node_.sleep_until(arrival);
  co_return std::move(stream);
}

Result<std::unique_ptr<SharedSegment>> LocalNetwork::create_segment(const std::string& name,
                                                                    std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  // calloc gives large blocks as untouched zero pages, so a phantom run of many ranks pays for what it
  // touches only.
  std::shared_ptr<void> block(std::calloc(1, bytes + kPage), std::free);
  if (!block)
    return error(Code::kExhausted, "[runtime] no memory for the segment '{}' of {}", name,
                 format_bytes(bytes));
  void* at = block.get();
  std::size_t space = bytes + kPage;
  auto* first = static_cast<std::byte*>(std::align(kPage, bytes, at, space));
  return std::unique_ptr<SharedSegment>(
      std::make_unique<VirtualSegment>(std::shared_ptr<std::byte>(std::move(block), first), bytes));
}

Result<std::unique_ptr<Doorbell>> LocalNetwork::make_doorbell() {
  return std::unique_ptr<Doorbell>(std::make_unique<VirtualDoorbell>(node_, node_));
}

void LocalNetwork::add_poller(Poller* poller) {
  pollers_.push_back(poller);
  poll_after(0);
}

void LocalNetwork::remove_poller(Poller* poller) { std::erase(pollers_, poller); }

void LocalNetwork::poll_after(TimeNs delay) {
  if (poll_pending_ || node_.dead) return;
  poll_pending_ = true;
  node_.core.at(&node_, node_.now() + delay, Label::kPoll, [this] {
    poll_pending_ = false;
    poll();
  });
}

void LocalNetwork::poll() {
  bool progress = false;
  // A poller may add or remove pollers, itself included.
  const std::vector<Poller*> round = pollers_;
  for (Poller* poller : round)
    if (std::find(pollers_.begin(), pollers_.end(), poller) != pollers_.end())
      progress |= poller->poll_on_loop();
  if (progress) poll_after(0);
}

void LocalNetwork::add_stream(std::weak_ptr<StreamEnd> end) {
  std::erase_if(streams_, [](const std::weak_ptr<StreamEnd>& s) { return s.expired(); });
  streams_.push_back(std::move(end));
}

void LocalNetwork::node_ended() {
  for (const std::weak_ptr<StreamEnd>& weak : streams_)
    if (const std::shared_ptr<StreamEnd> end = weak.lock()) end->close();
  std::erase_if(node_.machine().listeners,
                [this](const auto& entry) { return &entry.second->node == &node_; });
}

}  // namespace trireme::runtime::virt
