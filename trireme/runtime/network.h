// How ranks reach each other below the transports: mailboxes in one process, local streams between processes
// of one host that can pass shared segments and doorbells, and shared segments themselves. (TCP streams are a
// Stream too.)
//
// Real: queues between loops, Unix sockets, memfds, eventfds. Virtual: links with latency, bandwidth and FIFO
// occupancy.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

// What travels between mailboxes. `header` belongs to the transport. The payload is shared and immutable once
// sent; payload == nullptr with bytes > 0 is a phantom: only its size travels.
struct Packet {
  std::array<std::uint64_t, 6> header{};
  std::shared_ptr<const std::byte> payload;
  std::uint64_t bytes = 0;
};

// One endpoint of the in-process fabric. Ordered per (from, to). Handlers run on the owner's loop.
// A packet to an endpoint that is not open yet waits for it; one to a closed endpoint is dropped.
class Mailbox {
 public:
  virtual ~Mailbox() = default;  // closes: every other open mailbox of the fabric hears it (at link latency)
  virtual int id() const = 0;
  virtual void send(int to, Packet packet) = 0;
  // `sent` (if any) runs on the sender's loop when the packet has left (real: at once; virtual: link free
  // again).
  virtual void send(int to, Packet packet, Callback sent) = 0;
  virtual void set_handlers(std::function<void(int from, Packet packet)> on_packet,
                            std::function<void(int peer)> on_closed) = 0;
};

// Memory that processes of one host share. Unmapped when the object goes.
class SharedSegment {
 public:
  virtual ~SharedSegment() = default;
  virtual std::byte* data() = 0;
  virtual std::size_t size() const = 0;
};

// Rings the loop that made it (make_doorbell) from any process of the host. Cheap while that loop is awake.
class Doorbell {
 public:
  virtual ~Doorbell() = default;
  virtual void ring() = 0;
};

// A byte stream between two processes, with segments and doorbells passed beside the bytes.
// One reader and one writer at a time. A closed peer: read_some gives 0 bytes, writes fail with kPeerLost.
class Stream {
 public:
  virtual ~Stream() = default;  // closes
  virtual Task<Result<std::size_t>> read_some(MutByteView into, TimeNs deadline) = 0;
  virtual Task<Status> write_all(ByteView bytes, TimeNs deadline) = 0;
  virtual Task<Status> send_segment(SharedSegment& segment, TimeNs deadline) = 0;
  virtual Task<Result<std::unique_ptr<SharedSegment>>> receive_segment(TimeNs deadline) = 0;
  virtual Task<Status> send_doorbell(Doorbell& bell, TimeNs deadline) = 0;
  virtual Task<Result<std::unique_ptr<Doorbell>>> receive_doorbell(TimeNs deadline) = 0;
  virtual void close() = 0;

  Task<Status> read_exact(MutByteView into, TimeNs deadline);  // kPeerLost when the stream ends early
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual Task<Result<std::unique_ptr<Stream>>> accept(TimeNs deadline) = 0;
};

// Something the loop asks for progress on every turn, while it spins, and after a doorbell rang.
class Poller {
 public:
  virtual ~Poller() = default;
  virtual bool poll_on_loop() = 0;  // true when it made progress
};

class Network {
 public:
  virtual ~Network() = default;

  // In-process fabric: ids are unique within it.
  virtual Result<std::unique_ptr<Mailbox>> open_mailbox(int id) = 0;

  // Streams between processes of this host, by a path (real: a Unix socket; virtual: a name on the machine).
  virtual Result<std::unique_ptr<Listener>> listen_local(const std::string& path) = 0;
  // Retries until somebody listens or the deadline passes.
  virtual Task<Result<std::unique_ptr<Stream>>> connect_local(std::string path, TimeNs deadline) = 0;

  virtual Result<std::unique_ptr<SharedSegment>> create_segment(const std::string& name,
                                                                std::size_t bytes) = 0;
  virtual Result<std::unique_ptr<Doorbell>> make_doorbell() = 0;  // rings this Runtime's loop
  virtual void add_poller(Poller* poller) = 0;
  virtual void remove_poller(Poller* poller) = 0;
};

}  // namespace trireme::runtime
