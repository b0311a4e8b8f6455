// Matcher: pairs recvs with arrived messages by (peer, Identity), in order per key.
//
// A key holds waiting recvs or waiting messages, never both; a key without either takes no memory. Open
// addressing with linear probing and backward-shift deletion; entries and queue nodes are recycled, so steady
// state allocates nothing. An empty Matcher takes no heap memory: a thousand of them fit in one process. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "trireme/net/transport.h"

namespace trireme::net {

struct PendingRecv {
  std::uint64_t fingerprint = 0;  // packed
  View view;
  Completion* done = nullptr;
  std::uint64_t cookie = 0;
};

struct ArrivedMessage {
  std::uint64_t fingerprint = 0;
  std::shared_ptr<const std::byte> payload;  // null: empty or phantom
  std::uint64_t bytes = 0;
};

class Matcher {
 public:
  // The oldest waiting recv for the key, if any.
  std::optional<PendingRecv> take_recv(int peer, const Identity& id);
  std::optional<ArrivedMessage> take_arrived(int peer, const Identity& id);
  // Precondition: take_arrived (take_recv) of the same key just found nothing.
  void add_recv(int peer, const Identity& id, const PendingRecv& recv);
  void add_arrived(int peer, const Identity& id, ArrivedMessage message);

  // Removes and returns the recvs of `peer` (-1: of everybody), in the order they were posted per key.
  std::vector<PendingRecv> take_recvs_of(int peer);
  void drop_arrived(int peer = -1);  // of everybody
  // Removes everything of a group (Identity::group): `recv` gets each recv, `dropped` the payload bytes of
  // each waiting message.
  void forget_group(std::uint16_t group, const std::function<void(int peer, const PendingRecv&)>& recv,
                    const std::function<void(int peer, std::uint64_t bytes)>& dropped);
  void visit_arrived(const Transport::WaitingVisitor& visit) const;
  std::size_t num_keys() const { return num_entries_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Entry {
    std::uint64_t high = 0, low = 0;
    std::uint32_t peer = kNone;  // kNone: free
    std::uint32_t first = kNone, last = kNone;
    bool holds_recvs = false;
  };
  struct Node {
    std::uint64_t fingerprint = 0;
    std::uint64_t bytes = 0;
    std::byte* data = nullptr;
    Completion* done = nullptr;
    std::uint64_t cookie = 0;
    std::shared_ptr<const std::byte> payload;
    std::uint32_t next = kNone;
  };

  template <typename Wanted>
  std::vector<std::pair<int, Identity>> keys_where(Wanted wanted) const;
  static std::uint64_t hash(std::uint32_t peer, std::uint64_t high, std::uint64_t low);
  std::uint32_t find(int peer, const Identity& id) const;
  std::uint32_t find_or_insert(int peer, const Identity& id);
  void grow();
  void erase(std::uint32_t position);
  std::uint32_t new_node();
  void free_node(std::uint32_t node);
  void append(int peer, const Identity& id, std::uint32_t node, bool is_recv);
  std::uint32_t pop_front(std::uint32_t position);

  std::vector<Entry> entries_;  // size is 0 or a power of two
  std::size_t num_entries_ = 0;
  std::vector<Node> nodes_;
  std::uint32_t free_nodes_ = kNone;
};

}  // namespace trireme::net
