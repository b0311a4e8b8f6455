// Streams of the virtual world: local ones inside a machine, which also pass segments and doorbells, and TCP
// between machines. Internal to runtime/virtual.
//
// What one end sends is queued at the other in the order of sending; an event per item says when the next one
// arrives. A TCP end takes no more than a window of bytes that the peer has not read, so a reader that stops
// holds its writer. A muted Runtime's TCP items wait until it is heard again: what is lost is sent again.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "trireme/runtime/virtual/local_network.h"

namespace trireme::runtime::virt {

// One way without occupying anything: how long, and how many bytes per second the path carries.
cost::LinkModel path_between(const VirtualNode& from, const VirtualNode& to);

class StreamEnd : public std::enable_shared_from_this<StreamEnd> {
 public:
  using Apply = Function<void(StreamEnd&)>;
  StreamEnd(VirtualNode& n, bool is_tcp) : node(n), tcp(is_tcp) {}
  static void join(const std::shared_ptr<StreamEnd>& a, const std::shared_ptr<StreamEnd>& b);

  // Hands `apply` to the peer over the links; gives the time when the sender's link is free again.
  TimeNs to_peer(std::uint64_t bytes, Apply apply);
  // Tells the peer that nothing more comes, after what is under way.
  void close();
  // Resumes whoever waits for something to arrive or for room; waiters look again.
  void wake();

  std::size_t read(std::span<const MutByteView> into);
  std::size_t write(std::span<const ByteView> from);  // as much as the window has room for
  bool has_traffic() const {
    const std::shared_ptr<StreamEnd> to = peer.lock();
    return !under_way.empty() || (to && !to->under_way.empty());
  }

  VirtualNode& node;
  const bool tcp;
  HostPort local;
  std::weak_ptr<StreamEnd> peer;
  std::deque<Bytes> bytes;  // arrived; the first one from `first_offset` on
  std::size_t first_offset = 0;
  std::deque<std::shared_ptr<std::byte>> segments;
  std::deque<std::size_t> segment_sizes;
  std::deque<VirtualNode*> bells;
  std::vector<OneShot<bool>*> waiters;
  TimeNs last_arrival = 0;   // at the peer
  std::uint64_t unread = 0;  // bytes that were written here and the peer has not read, as far as heard
  std::uint64_t window = 0;  // at most so many
  bool starved = false;      // a write fell short
  bool closed = false, peer_closed = false;

 private:
  void schedule(TimeNs when);
  void lose(TimeNs when);
  void arrive();
  void return_credit(std::uint64_t count);

  std::deque<Apply> under_way;   // from the peer, in order
  std::uint64_t unreturned = 0;  // read here, the peer was not told yet
};

struct ListenerState {
  explicit ListenerState(VirtualNode& n) : node(n) {}
  VirtualNode& node;
  HostPort address;
  std::deque<std::shared_ptr<StreamEnd>> ready;
  OneShot<bool>* waiter = nullptr;
  bool gone = false;  // its Listener was destroyed: whoever still connects hears the end at once
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
  VirtualDoorbell(VirtualNode& holder, VirtualNode& target) : holder_(holder), target_(target) {}
  void ring() override {
    holder_.act([target = &target_] {
      if (!target->dead) target->local_network->poll_after(target->machine().local.model.latency_ns);
    });
  }
  VirtualNode& target() const { return target_; }

 private:
  VirtualNode &holder_, &target_;
};

std::unique_ptr<Stream> make_virtual_stream(std::shared_ptr<StreamEnd> end);

}  // namespace trireme::runtime::virt
