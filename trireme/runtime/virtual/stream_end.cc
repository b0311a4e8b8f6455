#include <algorithm>

#include "trireme/runtime/virtual/streams.h"

namespace trireme::runtime::virt {
namespace {
// What the socket buffers of both ends hold at least; long or fast paths get twice what is in flight on them.
constexpr std::uint64_t kMinWindow = 256U << 10;
}  // namespace

cost::LinkModel path_between(const VirtualNode& from, const VirtualNode& to) {
  if (from.machine_index == to.machine_index) return from.machine().local.model;
  return from.core.path_model(from.machine_index, to.machine_index);
}

void StreamEnd::join(const std::shared_ptr<StreamEnd>& a, const std::shared_ptr<StreamEnd>& b) {
  a->peer = b;
  b->peer = a;
  const cost::LinkModel path = path_between(a->node, b->node);
  const double in_flight = 4 * to_seconds(path.latency_ns) * path.bytes_per_second;
  a->window = b->window = std::max(kMinWindow, static_cast<std::uint64_t>(in_flight));
}

void StreamEnd::wake() {
  for (OneShot<bool>* waiter : std::exchange(waiters, {})) waiter->set(true);
  if (tcp) node.local_network->poll_after(0);
}

void StreamEnd::schedule(TimeNs when) {
  if (when != kForever)
    node.core.at(&node, when, Label::kStream, [self = shared_from_this()] { self->arrive(); });
}

void StreamEnd::arrive() {
  if (tcp && node.muted_until > node.now()) return schedule(node.muted_until);
  if (under_way.empty()) return;
  Apply apply = std::move(under_way.front());
  under_way.pop_front();
  apply(*this);
  wake();
}

TimeNs StreamEnd::to_peer(std::uint64_t num_bytes, Apply apply) {
  const std::shared_ptr<StreamEnd> to = peer.lock();
  const int target = to ? to->node.machine_index : node.machine_index;
  const Core::Transfer taken = node.core.reserve(node.machine_index, target, num_bytes);
  last_arrival = std::max(last_arrival, taken.arrival);
  if (tcp && node.muted_until > node.now()) last_arrival = std::max(last_arrival, node.muted_until);
  if (!to) return taken.sent;
  to->under_way.push_back(std::move(apply));
  to->schedule(last_arrival);
  if (taken.lost_at != kForever) {  // the links gave up: both ends hear that the other is gone
    lose(taken.lost_at);
    to->lose(taken.lost_at);
  }
  return taken.sent;
}

void StreamEnd::lose(TimeNs when) {
  node.core.at(&node, when, Label::kStream, [self = shared_from_this()] {
    self->peer_closed = true;
    self->wake();
  });
}

void StreamEnd::close() {
  if (closed) return;
  closed = true;
  if (tcp && node.muted_until > node.now()) return;
  const std::shared_ptr<StreamEnd> to = peer.lock();
  if (!to) return;
  last_arrival = std::max(last_arrival, node.now() + path_between(node, to->node).latency_ns);
  to->under_way.push_back([](StreamEnd& end) { end.peer_closed = true; });
  to->schedule(last_arrival);
}

std::size_t StreamEnd::read(std::span<const MutByteView> into) {
  std::size_t total = 0;
  for (MutByteView piece : into)
    while (!piece.empty() && !bytes.empty()) {
      const ByteView first = ByteView(bytes.front()).subspan(first_offset);
      const std::size_t count = std::min(first.size(), piece.size());
      std::copy_n(first.begin(), count, piece.begin());
      piece = piece.subspan(count);
      first_offset += count;
      total += count;
      if (first_offset == bytes.front().size()) {
        bytes.pop_front();
        first_offset = 0;
      }
    }
  if (tcp) return_credit(total);
  return total;
}

// In portions: a writer that stands has a whole window unread, so the portions reach it.
void StreamEnd::return_credit(std::uint64_t count) {
  unreturned += count;
  const std::shared_ptr<StreamEnd> to = peer.lock();
  if (unreturned < window / 4 || !to) return;
  const TimeNs latency = path_between(node, to->node).latency_ns;
  const TimeNs heard = std::max({node.now(), node.muted_until, to->node.muted_until});
  if (heard > kForever - latency) return;
  node.core.at(&to->node, heard + latency, Label::kStream, [to, credit = std::exchange(unreturned, 0)] {
    to->unread -= std::min(to->unread, credit);
    if (std::exchange(to->starved, false)) to->wake();
  });
}

std::size_t StreamEnd::write(std::span<const ByteView> from) {
  Bytes copy;
  std::uint64_t room = window - std::min(window, unread);
  for (const ByteView piece : from) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(room, piece.size()));
    copy.insert(copy.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
    room -= count;
    if (count < piece.size()) starved = true;
  }
  const std::size_t total = copy.size();
  if (total == 0) return 0;
  unread += total;
  auto shared = std::make_shared<Bytes>(std::move(copy));
  node.act([self = shared_from_this(), shared] {
    self->to_peer(shared->size(), [shared](StreamEnd& to) { to.bytes.push_back(std::move(*shared)); });
  });
  return total;
}

}  // namespace trireme::runtime::virt
