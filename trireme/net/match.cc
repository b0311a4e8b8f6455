#include "trireme/net/match.h"

#include <utility>

namespace trireme::net {

std::uint64_t Matcher::hash(std::uint32_t peer, std::uint64_t high, std::uint64_t low) {
  std::uint64_t h = (high ^ (std::uint64_t{peer} << 40)) * 0x9E3779B97F4A7C15ULL;
  h ^= h >> 32;
  h = (h ^ low) * 0xBF58476D1CE4E5B9ULL;
  return h ^ (h >> 29);
}

std::uint32_t Matcher::find(int peer, const Identity& id) const {
  if (num_entries_ == 0) return kNone;
  const auto key_peer = static_cast<std::uint32_t>(peer);
  const std::uint64_t high = id.high(), low = id.low();
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t at = hash(key_peer, high, low) & mask; entries_[at].peer != kNone; at = (at + 1) & mask) {
    const Entry& e = entries_[at];
    if (e.low == low && e.high == high && e.peer == key_peer) return static_cast<std::uint32_t>(at);
  }
  return kNone;
}

std::uint32_t Matcher::find_or_insert(int peer, const Identity& id) {
  if (const std::uint32_t at = find(peer, id); at != kNone) return at;
  if (2 * (num_entries_ + 1) > entries_.size()) grow();
  const auto key_peer = static_cast<std::uint32_t>(peer);
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = hash(key_peer, id.high(), id.low()) & mask;
  while (entries_[at].peer != kNone) at = (at + 1) & mask;
  entries_[at] = {.high = id.high(), .low = id.low(), .peer = key_peer};
  ++num_entries_;
  return static_cast<std::uint32_t>(at);
}

void Matcher::grow() {
  std::vector<Entry> old =
      std::exchange(entries_, std::vector<Entry>(entries_.empty() ? 16 : 2 * entries_.size()));
  const std::size_t mask = entries_.size() - 1;
  for (const Entry& e : old) {
    if (e.peer == kNone) continue;
    std::size_t at = hash(e.peer, e.high, e.low) & mask;
    while (entries_[at].peer != kNone) at = (at + 1) & mask;
    entries_[at] = e;
  }
}

// Backward shift: entries that were pushed past the hole move into it, so that no tombstones pile up.
void Matcher::erase(std::uint32_t position) {
  const std::size_t mask = entries_.size() - 1;
  std::size_t hole = position;
  for (std::size_t at = (hole + 1) & mask; entries_[at].peer != kNone; at = (at + 1) & mask) {
    const std::size_t home = hash(entries_[at].peer, entries_[at].high, entries_[at].low) & mask;
    if (((at - home) & mask) >= ((at - hole) & mask)) {
      entries_[hole] = entries_[at];
      hole = at;
    }
  }
  entries_[hole] = {};
  --num_entries_;
}

std::uint32_t Matcher::new_node() {
  if (free_nodes_ != kNone) return std::exchange(free_nodes_, nodes_[free_nodes_].next);
  nodes_.emplace_back();
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

void Matcher::free_node(std::uint32_t node) {
  nodes_[node].payload.reset();
  nodes_[node].next = std::exchange(free_nodes_, node);
}

void Matcher::append(int peer, const Identity& id, std::uint32_t node, bool is_recv) {
  nodes_[node].next = kNone;
  Entry& e = entries_[find_or_insert(peer, id)];
  if (e.first == kNone) {
    e.first = node;
    e.holds_recvs = is_recv;
  } else {
    TR_CHECK(e.holds_recvs == is_recv, "a key holds recvs or messages, not both");
    nodes_[e.last].next = node;
  }
  e.last = node;
}

std::uint32_t Matcher::pop_front(std::uint32_t position) {
  Entry& e = entries_[position];
  const std::uint32_t node = e.first;
  e.first = nodes_[node].next;
  if (e.first == kNone) erase(position);
  return node;
}

std::optional<PendingRecv> Matcher::take_recv(int peer, const Identity& id) {
  const std::uint32_t at = find(peer, id);
  if (at == kNone || !entries_[at].holds_recvs) return std::nullopt;
  const std::uint32_t node = pop_front(at);
  const Node& n = nodes_[node];
  const PendingRecv recv{n.fingerprint, {n.data, n.bytes}, n.done, n.cookie};
  free_node(node);
  return recv;
}

std::optional<ArrivedMessage> Matcher::take_arrived(int peer, const Identity& id) {
  const std::uint32_t at = find(peer, id);
  if (at == kNone || entries_[at].holds_recvs) return std::nullopt;
  const std::uint32_t node = pop_front(at);
  Node& n = nodes_[node];
  ArrivedMessage message{n.fingerprint, std::move(n.payload), n.bytes};
  free_node(node);
  return message;
}

void Matcher::add_recv(int peer, const Identity& id, const PendingRecv& recv) {
  const std::uint32_t node = new_node();
  Node& n = nodes_[node];
  n.fingerprint = recv.fingerprint;
  n.data = recv.view.data;
  n.bytes = recv.view.bytes;
  n.done = recv.done;
  n.cookie = recv.cookie;
  append(peer, id, node, true);
}

void Matcher::add_arrived(int peer, const Identity& id, ArrivedMessage message) {
  const std::uint32_t node = new_node();
  Node& n = nodes_[node];
  n.fingerprint = message.fingerprint;
  n.bytes = message.bytes;
  n.payload = std::move(message.payload);
  append(peer, id, node, false);
}

template <typename Wanted>
std::vector<std::pair<int, Identity>> Matcher::keys_where(Wanted wanted) const {
  std::vector<std::pair<int, Identity>> keys;
  for (const Entry& e : entries_)
    if (e.peer != kNone && wanted(e))
      keys.emplace_back(static_cast<int>(e.peer), Identity::unpack(e.high, e.low));
  return keys;
}

std::vector<PendingRecv> Matcher::take_recvs_of(int peer) {
  std::vector<PendingRecv> out;
  for (const auto& [from, id] : keys_where([peer](const Entry& e) {
         return e.holds_recvs && (peer < 0 || e.peer == static_cast<std::uint32_t>(peer));
       }))
    while (auto recv = take_recv(from, id)) out.push_back(*recv);
  return out;
}

void Matcher::drop_arrived(int peer) {
  for (const auto& [from, id] : keys_where([peer](const Entry& e) {
         return !e.holds_recvs && (peer < 0 || e.peer == static_cast<std::uint32_t>(peer));
       }))
    while (take_arrived(from, id)) {
    }
}

void Matcher::forget_group(std::uint16_t group, const std::function<void(int, const PendingRecv&)>& recv,
                           const std::function<void(int, std::uint64_t)>& dropped) {
  for (const auto& [from, id] :
       keys_where([group](const Entry& e) { return static_cast<std::uint16_t>(e.high >> 16) == group; })) {
    while (const auto pending = take_recv(from, id)) recv(from, *pending);
    while (const auto message = take_arrived(from, id)) dropped(from, message->payload ? message->bytes : 0);
  }
}

void Matcher::visit_arrived(const Transport::WaitingVisitor& visit) const {
  for (const Entry& e : entries_)
    if (e.peer != kNone && !e.holds_recvs)
      for (std::uint32_t node = e.first; node != kNone; node = nodes_[node].next)
        visit(static_cast<int>(e.peer), Identity::unpack(e.high, e.low),
              Fingerprint::unpack(nodes_[node].fingerprint));
}

}  // namespace trireme::net
