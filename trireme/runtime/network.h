// How ranks reach each other below the transports: endpoints in one process, local streams between processes
// of one host that can pass shared segments and doorbells, shared segments themselves, and TCP streams
// between hosts.
//
// Real: queues between loops, Unix and TCP sockets, memfds, eventfds. Virtual: links with latency, bandwidth
// and FIFO occupancy.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/runtime/address.h"
#include "trireme/runtime/runtime.h"

namespace trireme::runtime {

// What travels between endpoints. `header` belongs to the transport. The payload is shared and immutable once
// sent; payload == nullptr with bytes > 0 is a phantom: only its size travels.
struct Packet {
  std::array<std::uint64_t, 6> header{};
  std::shared_ptr<const std::byte> payload;
  std::uint64_t bytes = 0;
};

// One endpoint of the in-process fabric. Ordered per (from, to). Handlers run on the owner's loop.
// A packet to an endpoint that is not open yet waits for it; one to a closed endpoint is dropped.
class FabricEndpoint {
 public:
  // Closes: every other open endpoint of the fabric hears it (at link latency).
  virtual ~FabricEndpoint() = default;
  virtual int id() const = 0;
  virtual void send(int to, Packet packet) = 0;
  // `sent` (if any) runs on the sender's loop when the packet has left (real: at once; virtual: link free
  // again).
  virtual void send(int to, Packet packet, Callback sent) = 0;
  virtual void set_handlers(std::function<void(int from, Packet packet)> on_packet,
                            std::function<void(int peer)> on_closed) = 0;
  // A packet that is not urgent is on the links, from here or to here (real: they take no time).
  virtual bool has_traffic() const { return false; }
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

// A byte stream between two processes. One reader and one writer at a time. A closed peer: read_some gives 0
// bytes, writes fail with kPeerLost.
//
// Local streams also pass segments and doorbells beside the bytes. TCP streams also have the try_ forms, for
// a Poller that must not wait; every arrival, and room for more after a try_write that fell short, makes the
// loop poll. Each kind answers kUnavailable to what only the other has.
class Stream {
 public:
  virtual ~Stream() = default;  // closes
  virtual Task<Result<std::size_t>> read_some(MutByteView into, TimeNs deadline) = 0;
  virtual Task<Status> write_all(ByteView bytes, TimeNs deadline) = 0;
  virtual void close() = 0;
  Task<Status> read_exact(MutByteView into, TimeNs deadline);  // kPeerLost when the stream ends early

  virtual Task<Status> send_segment(SharedSegment& segment, TimeNs deadline);
  virtual Task<Result<std::unique_ptr<SharedSegment>>> receive_segment(TimeNs deadline);
  virtual Task<Status> send_doorbell(Doorbell& bell, TimeNs deadline);
  virtual Task<Result<std::unique_ptr<Doorbell>>> receive_doorbell(TimeNs deadline);

  // Moves what can be moved now, through the pieces in order (at most kMaxPieces, none of them empty): the
  // number of bytes, 0 when nothing can. kPeerLost: the stream has ended.
  static constexpr std::size_t kMaxPieces = 16;
  virtual Result<std::size_t> try_read(std::span<const MutByteView> into);
  virtual Result<std::size_t> try_write(std::span<const ByteView> from);
  // False: the last try_read found nothing and no news came since. A spinning Poller that expects data tries
  // anyway: news comes late (real: the loop looks at its descriptors every 20 us only).
  virtual bool may_read() const { return true; }
  virtual bool may_write() const { return true; }  // the same for try_write
  // Bytes are on the links, in or out; real: not known, they come piece by piece.
  virtual bool has_traffic() const { return false; }
  virtual HostPort local_address() const { return {}; }  // of this end of a TCP stream
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual Task<Result<std::unique_ptr<Stream>>> accept(TimeNs deadline) = 0;
  virtual HostPort address() const { return {}; }  // of a TCP listener, with the port it got
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
  virtual Result<std::unique_ptr<FabricEndpoint>> open_endpoint(int id) = 0;

  // Streams between processes of this host, by a path (real: a Unix socket; virtual: a name on the machine).
  virtual Result<std::unique_ptr<Listener>> listen_local(const std::string& path) = 0;
  // Retries until somebody listens or the deadline passes.
  virtual Task<Result<std::unique_ptr<Stream>>> connect_local(std::string path, TimeNs deadline) = 0;

  // TCP, over IPv4 and IPv6. Port 0: a free one. Until streams are encrypted only loopback addresses are
  // listened at, unless `insecure`. Virtual: the hosts are machine-0, machine-1... and localhost.
  virtual Result<std::unique_ptr<Listener>> listen_tcp(HostPort at, bool insecure) = 0;
  // Retries until somebody listens or the deadline passes. A name is looked up before (the loop waits for
  // that).
  virtual Task<Result<std::unique_ptr<Stream>>> connect_tcp(HostPort to, TimeNs deadline) = 0;

  virtual Result<std::unique_ptr<SharedSegment>> create_segment(const std::string& name,
                                                                std::size_t bytes) = 0;
  virtual Result<std::unique_ptr<Doorbell>> make_doorbell() = 0;  // rings this Runtime's loop
  virtual void add_poller(Poller* poller) = 0;
  virtual void remove_poller(Poller* poller) = 0;
};

}  // namespace trireme::runtime
