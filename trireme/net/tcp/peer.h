// One peer of the tcp transport: its data and control connections and what is under way on them. Internal to
// net/tcp.
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "trireme/net/buffer_pool.h"
#include "trireme/net/tcp/frame_reader.h"
#include "trireme/net/tcp/frame_writer.h"
#include "trireme/net/tcp/mesh.h"

namespace trireme::net::tcp {

class Peer {
 public:
  Peer(Endpoint& endpoint, BufferPool& pool, int rank, PeerStreams streams);

  void send(const FrameHeader& header, const std::byte* data, SendToken token);
  void send_control(ByteView bytes);
  // A recv from this peer was posted and took `bytes` of the messages that are held for it.
  void posted(std::uint64_t bytes) {
    held_bytes_ -= bytes;
    ++expected_;
  }
  // Recvs were withdrawn, messages that were held are gone.
  void dropped(int recvs, std::uint64_t bytes) {
    held_bytes_ -= bytes;
    expected_ -= recvs;
  }
  // Takes back the sends and the recv under way; for poison, or when the peer is lost.
  void abandon(const Status& reason);
  // The recv under way, if it is of this group.
  void abandon_recv(std::uint16_t group, const Status& reason);
  // Moves what can be moved; true when something did.
  bool poll_on_loop();

  bool stands_on_loop() const { return data_in_.stands(); }  // a message waits for its recv
  const Status& broken() const { return broken_; }
  Motion motion() const {
    return {.moved_bytes = data_in_.num_bytes() + data_out_.num_bytes(), .on_the_way = data_.has_traffic()};
  }
  // The peer closed a connection; both, and everything that came before was handed out.
  bool ending() const { return data_in_.ended() || control_in_.ended(); }
  bool ended() const { return data_in_.ended() && control_in_.ended(); }
  void close();

 private:
  // Messages that come, frame by frame.
  class DataSink final : public FrameSink {
   public:
    explicit DataSink(Peer& peer) : peer_(peer) {}
    Result<bool> begin_frame(const FrameHeader& header) override;
    std::byte* target() override;
    void end_frame(const FrameHeader& header) override;

   private:
    Peer& peer_;
  };
  class ControlSink final : public FrameSink {
   public:
    explicit ControlSink(Peer& peer) : peer_(peer) {}
    Result<bool> begin_frame(const FrameHeader& header) override;
    std::byte* target() override { return bytes_.data(); }
    void end_frame(const FrameHeader& header) override;

   private:
    Peer& peer_;
    std::array<std::byte, kMaxControlPayload> bytes_;
  };
  struct Incoming {
    FrameHeader first;                // header of its first frame
    std::optional<PendingRecv> recv;  // filled in place
    std::shared_ptr<std::byte> held;  // or kept for a later recv
    std::uint64_t offset = 0;         // bytes that are there and right
  };

  bool decide(const FrameHeader& header);
  void finish_message();
  bool push_control();
  void fail(const Status& why);

  Endpoint& endpoint_;
  BufferPool& pool_;
  const int rank_;
  PeerStreams streams_;
  runtime::Stream &data_, &control_;
  FrameReader data_in_, control_in_;
  FrameWriter data_out_;
  DataSink data_sink_{*this};
  ControlSink control_sink_{*this};
  std::deque<Bytes> control_queue_;
  std::size_t control_done_ = 0;  // bytes of the first that are written
  std::optional<Incoming> incoming_;
  std::uint64_t held_bytes_ = 0;
  std::int64_t expected_ =
      0;  // recvs posted less messages that came: more than 0 is worth a look while spinning
  Status broken_;
};

}  // namespace trireme::net::tcp
