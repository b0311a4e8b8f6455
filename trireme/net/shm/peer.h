// One peer of the shm transport: its two rings each way and what is under way in them. Internal to net/shm.
#pragma once

#include <deque>
#include <optional>

#include "trireme/net/buffer_pool.h"
#include "trireme/net/endpoint.h"
#include "trireme/net/shm/rendezvous.h"
#include "trireme/net/shm/ring.h"

namespace trireme::net::shm {

struct Outgoing {
  RingFrameHeader header;
  const std::byte* data;
  SendToken token;
  std::uint64_t offset = 0;
  bool header_written = false;
};
struct Incoming {
  RingFrameHeader header;
  std::optional<PendingRecv> recv;  // filled in place
  std::shared_ptr<std::byte> held;  // or kept for a later recv
  std::uint64_t offset = 0;
  bool decided = false;  // where the payload goes
  std::byte* target() const { return recv ? recv->view.data : held.get(); }
};

class Peer {
 public:
  Peer(Endpoint& endpoint, BufferPool& pool, int rank, PeerLink link, std::byte* own_segment,
       std::size_t ring_bytes);

  void send(const RingFrameHeader& header, const std::byte* data, SendToken token);
  void send_control(ByteView bytes);
  // Takes back the sends and the recv under way; for poison, or when the peer is lost.
  void abandon(const Status& reason);
  // The recv under way, if it is of this group.
  void abandon_recv(std::uint16_t group, const Status& reason);
  // Moves what can be moved; true when something did.
  bool poll_on_loop();
  // A recv took `bytes` of the messages that are held for it.
  void posted(std::uint64_t bytes) { held_bytes_ -= bytes; }
  // Recvs were withdrawn, messages that were held are gone.
  void dropped(int /*recvs*/, std::uint64_t bytes) { held_bytes_ -= bytes; }

  bool stands_on_loop() const { return stands_; }  // a message waits in the ring for its recv
  const Status& broken() const { return broken_; }
  Motion motion() const { return {.moved_bytes = data_in_.consumed() + data_out_.written()}; }
  runtime::Stream& stream() { return *link_.stream; }
  runtime::SharedSegment& segment() { return *link_.segment; }
  runtime::Doorbell& bell() { return *link_.bell; }
  const std::shared_ptr<runtime::Stream>& shared_stream() const { return link_.stream; }

 private:
  bool push_on_loop();
  bool push_some(Outgoing& out, std::uint64_t free);
  bool push_control();
  bool pull_data_on_loop();
  bool pull_control_on_loop();
  bool begin_message();
  bool decide();
  void finish_message();
  void fail(const char* what);

  Endpoint& endpoint_;
  BufferPool& pool_;
  const int rank_;
  PeerLink link_;
  RingWriter data_out_, control_out_;
  RingReader data_in_, control_in_;
  std::deque<Outgoing> outgoing_;
  std::deque<Bytes> control_queue_;
  std::optional<Incoming> incoming_;
  std::uint64_t held_bytes_ = 0;
  bool stands_ = false;
  Status broken_;
};

}  // namespace trireme::net::shm
