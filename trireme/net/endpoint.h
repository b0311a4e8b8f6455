// Endpoint: the half of a Transport that does not depend on the medium. It matches messages with recvs,
// completes sends and recvs exactly once and from the loop, poisons, and keeps control messages and closed
// notices until somebody listens.
//
// Shared, because callbacks of the loop and the medium may outlive the Transport. close() ends it: nothing is
// called any more (what is outstanding is dropped; poison first where completions matter). Not thread-safe:
// one loop.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "trireme/net/match.h"
#include "trireme/net/transport.h"

namespace trireme::net {

inline constexpr std::size_t kMaxControlBytes = 1024;

// Names an outstanding send; stale tokens (after poison) are recognised and ignored.
struct SendToken {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
};

// The error of ranks that made different calls under one identity.
Status disagreement(int rank, int peer, const Identity& id, const std::string& got,
                    const std::string& expected);
std::string describe_call(const Identity& id, const Fingerprint& fingerprint);

class Endpoint : public std::enable_shared_from_this<Endpoint> {
 public:
  Endpoint(runtime::Runtime& rt, int rank, int world, std::uint32_t epoch);

  int rank() const { return rank_; }
  int world() const { return world_; }
  std::uint32_t epoch() const { return epoch_; }
  runtime::Runtime& rt() { return rt_; }
  bool poisoned() const { return !poison_.ok(); }
  const Status& poison_reason() const { return poison_; }
  bool closed() const { return closed_; }

  // False: the call makes no sense or the endpoint is poisoned; its completion is already on the way.
  bool check_call(int peer, const Identity& id, Completion* done, std::uint64_t cookie);

  // `peer` -1: it does not end with a peer that is forgotten.
  SendToken begin_send(Completion* done, std::uint64_t cookie, int peer = -1);
  // Calls the completion now: only from a callback of the loop.
  void end_send_on_loop(SendToken token, const Status& status);
  // Completes it from the loop, soon.
  void end_send_later(SendToken token, const Status& status);

  // Matches an arrived message or waits. Returns the payload bytes that were taken from the waiting messages.
  std::uint64_t recv(int peer, const Identity& id, std::uint64_t fingerprint, View view, Completion* done,
                     std::uint64_t cookie);
  // A whole message came: fills and completes the waiting recv, or keeps it (true). Only from a callback of
  // the loop.
  bool arrived_on_loop(int peer, const Identity& id, ArrivedMessage message, bool later = false);
  // For media that fill a recv piece by piece.
  Matcher& matcher() { return matcher_; }
  const Matcher& matcher() const { return matcher_; }
  // ok when a message of these properties suits the recv; otherwise the error for its completion.
  Status check_match(int peer, const Identity& id, const PendingRecv& recv, std::uint64_t fingerprint,
                     std::uint64_t bytes) const;
  void complete_later(Completion* done, std::uint64_t cookie, const Status& status);

  // Transport::forget_peer and forget_group. The medium has taken back what it had under way itself.
  void forget_peer(int peer, const Status& why);
  // Tells of each recv and each message that waited for one: whose it was, and the payload bytes it held.
  using Dropped = std::function<void(int peer, bool is_recv, std::uint64_t bytes)>;
  void forget_group(std::uint16_t group, const Status& why, const Dropped& dropped);
  // A message that nobody may get: after poison, of another epoch, a lost peer or a forgotten group.
  bool refuses(int peer, const Identity& id) const;

  // Returns false when it was poisoned before.
  bool poison(Status reason, Callback drained);
  void close();

  void control_on_loop(int peer, ByteView bytes);
  void set_control_handler(std::function<void(int, ByteView)> handler);
  void closed_on_loop(int peer);  // at most one notice per peer comes of it
  void set_closed_handler(std::function<void(int)> handler);

 private:
  struct SendSlot {
    Completion* done = nullptr;  // null: free
    std::uint64_t cookie = 0;
    std::uint32_t generation = 0;
    std::uint32_t next_free = 0;
    int peer = -1;
  };
  struct Ready {
    Completion* done;
    std::uint64_t cookie;
    Status status;
  };
  struct EarlyControl {
    int peer;
    Bytes bytes;
  };

  // Why nothing goes on with this peer or in this group; ok: it does.
  const Status& forgotten(int peer, std::uint16_t group) const;
  bool release(SendToken token, SendSlot& out);
  void schedule_flush();
  void flush_on_loop();
  void deliver_early_on_loop();

  runtime::Runtime& rt_;
  const int rank_, world_;
  const std::uint32_t epoch_;
  bool closed_ = false;
  Matcher matcher_;
  std::vector<SendSlot> sends_;
  std::uint32_t free_sends_ = UINT32_MAX;
  std::vector<Ready> ready_, delivering_;
  bool flush_scheduled_ = false;
  Status poison_;
  std::vector<Callback> drained_;
  const Status fine_;
  std::map<int, Status> lost_peers_;
  std::map<std::uint16_t, Status> dead_groups_;

  std::function<void(int, ByteView)> on_control_;
  std::function<void(int)> on_closed_;
  std::vector<EarlyControl> early_control_;
  std::vector<int> early_closed_;
  std::vector<bool> peer_closed_;  // empty until the first notice
};

}  // namespace trireme::net
