// Transport: tagged messages between the ranks of one job over a Runtime.
//
// Matching is by (peer, Identity). Ranks may start operations in any order; a message that comes before its
// recv waits. Every message carries the sender's Fingerprint of the operation; a recv whose fingerprint
// differs completes with kMismatch naming both. Completions are called exactly once, on the loop, never
// inside the call that started the work. Buffers belong to the transport from the call until its completion.
// A view with data == nullptr and bytes > 0 is a phantom: only its size travels.
//
// Deadlines: transports do not time out single messages. Waiting is bounded by the Membership (membership.h),
// which cancels everything when a rank is lost, silent or stuck, and tells every rank who and why.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/base/status.h"
#include "trireme/runtime/runtime.h"

namespace trireme::net {

// Which message: job epoch, group, step, plan slot, and the running number within the operation for one pair
// of ranks.
struct Identity {
  std::uint32_t epoch = 0;
  std::uint16_t group = 0;
  std::uint16_t slot = 0;
  std::uint32_t step = 0;
  std::uint32_t part = 0;

  std::uint64_t high() const { return (std::uint64_t{epoch} << 32) | (std::uint32_t{group} << 16) | slot; }
  std::uint64_t low() const { return (std::uint64_t{step} << 32) | part; }
  static Identity unpack(std::uint64_t high, std::uint64_t low);
  std::string to_string() const;  // "epoch 1 group 0 slot 2 step 17 part 3"
  friend bool operator==(const Identity&, const Identity&) = default;
};

// What operation the sender believes it is doing. Travels as one word with every message.
struct Fingerprint {
  std::uint8_t kind = 0;  // collective kind or message kind
  std::uint8_t dtype = 0;
  std::uint8_t format = 0;  // 0: row-major
  std::uint64_t count = 0;  // elements of the whole operation (40 bits)

  std::uint64_t pack() const {
    return (std::uint64_t{kind} << 56) | (std::uint64_t{dtype} << 48) | (std::uint64_t{format} << 40) |
           (count & 0xFF'FFFF'FFFFULL);
  }
  static Fingerprint unpack(std::uint64_t word);
  std::string to_string() const;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct View {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

// Told when a send's buffer may be reused or a recv's buffer is filled. `cookie` is the caller's.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual void on_complete(std::uint64_t cookie, const Status& status) = 0;
  // The first `bytes` of a recv are there and will not change. From the loop, any number of times before the
  // completion; transports that get messages whole do not tell.
  virtual void on_piece(std::uint64_t /*cookie*/, std::uint64_t /*bytes*/) {}
  // True: on_complete of a recv may run as soon as its message is whole, before the transport looks at what
  // came behind it. For who learns from one message where the next one goes, so that it need not be kept.
  virtual bool at_once() const { return false; }
};

struct Capabilities {
  bool peer_memory = false;    // windows are mapped: Window::peer gives addresses
  bool one_sided = false;      // make_window works
  bool survives_loss = false;  // forget_peer and forget_group work
};

// What of a rank's data messages moves, in and out, for telling a slow link from a standstill. Control
// messages do not count.
struct Motion {
  std::uint64_t moved_bytes = 0;  // so far, by media that move messages piece by piece
  bool on_the_way = false;        // some are on a link now, and will arrive by themselves
};

// Memory of every rank, equally large, that the others put into and get from without its help. What was put
// is there for the owner once the put is complete and the owner heard so (a message sent afterwards). Nobody
// may use the window when a rank has destroyed its own part: agree first.
class Window {
 public:
  virtual ~Window() = default;
  virtual std::uint64_t bytes() const = 0;
  virtual std::byte* local() = 0;         // this rank's part; null: phantom
  virtual std::byte* peer(int rank) = 0;  // mapped here, its own too; null: only put and get reach it
  virtual void put(int peer, std::uint64_t offset, View from, Completion* done, std::uint64_t cookie) = 0;
  virtual void get(int peer, std::uint64_t offset, View into, Completion* done, std::uint64_t cookie) = 0;
  // Makes the peer's loop look at its pollers again, for who waits for a change of mapped memory.
  virtual void wake(int peer) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  virtual std::string_view name() const = 0;  // "inproc", "shm"...
  virtual Capabilities capabilities() const = 0;
  // The number of the host that a rank runs on, the same on every rank: the first rank that is known to run
  // there.
  virtual int host_of(int peer) const { return peer; }
  // Whether that rank is known to run on the host of this one.
  bool same_host(int peer) const { return host_of(peer) == host_of(rank()); }

  virtual void send(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
                    std::uint64_t cookie) = 0;
  virtual void recv(int peer, const Identity& id, const Fingerprint& fp, View view, Completion* done,
                    std::uint64_t cookie) = 0;

  // Every outstanding send and recv completes with `reason` (from the loop); later ones too. Idempotent.
  // After the last completion was delivered `drained` runs. Buffers are free then.
  virtual void poison(Status reason, Callback drained) = 0;

  // With survives_loss. The peer is gone and the others go on: what is outstanding with it completes with
  // `why` (from the loop), later calls do too, and what it sent is refused. Control messages still pass.
  virtual void forget_peer(int peer, const Status& why);
  // With survives_loss. Nobody goes on with the calls of this group (Identity::group): recvs complete with
  // `why`, messages of it are refused, here or later. Sends end as ever, once the peers have forgotten it
  // too.
  virtual void forget_group(std::uint16_t group, const Status& why);

  // Small messages beside the data (heartbeats, verdicts): unordered against data, best effort, of at most so
  // many bytes.
  virtual std::size_t most_control_bytes() const { return 1024; }
  virtual void send_control(int peer, ByteView bytes) = 0;
  virtual void set_control_handler(std::function<void(int peer, ByteView bytes)> handler) = 0;
  // The peer's end went away (process died, connection closed, orderly goodbye is told apart by membership).
  virtual void set_closed_handler(std::function<void(int peer)> handler) = 0;

  // Every rank calls it, in the same order and with the same size. kUnavailable without `one_sided`.
  virtual runtime::Task<Result<std::unique_ptr<Window>>> make_window(std::uint64_t bytes, TimeNs deadline);

  // A window that is there from the start, for whoever runs collectives; null without `peer_memory`.
  virtual Window* exchange() { return nullptr; }
  // Memory in this rank's part of that window, aligned to a page; its end gives it back. null: there is none.
  virtual std::shared_ptr<std::byte> allocate_exchange(std::uint64_t /*bytes*/) { return nullptr; }

  // Messages that came and that no recv has taken, in no order. For looking, now and then.
  using WaitingVisitor = std::function<void(int peer, const Identity& id, const Fingerprint& fingerprint)>;
  virtual void visit_waiting(const WaitingVisitor& /*visit*/) const {}

  // For looking, now and then. Media without links, which hand messages over at once, know of none.
  virtual Motion motion() const { return {}; }
  virtual std::uint64_t bytes_sent() const = 0;  // payload and headers, on the wire
};

// Told of every data message as it is handed to the transport, for comparing runs.
struct SendRecord {
  int peer;
  Identity id;
  std::uint64_t bytes;
  friend bool operator==(const SendRecord&, const SendRecord&) = default;
};
// Wraps `inner`: notes every send in `*log`, passes everything on.
std::unique_ptr<Transport> make_recording_transport(std::unique_ptr<Transport> inner,
                                                    std::vector<SendRecord>* log);

}  // namespace trireme::net
