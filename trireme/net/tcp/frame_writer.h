// Cuts messages into frames and writes them to a stream without waiting and without copying: several frames
// per system call, payloads from the caller's memory. Internal to net/tcp.
#pragma once

#include <deque>

#include "trireme/net/endpoint.h"
#include "trireme/net/frame.h"
#include "trireme/runtime/network.h"

namespace trireme::net::tcp {

class FrameWriter {
 public:
  FrameWriter(runtime::Stream& stream, Endpoint& endpoint) : stream_(stream), endpoint_(endpoint) {}

  // `header` says what the message is (its payload fields are filled here). The memory stays until the
  // endpoint hears of the token.
  void add(const FrameHeader& header, const std::byte* data, SendToken token);
  // Writes what the stream takes now, about `limit` bytes at most. True when something moved.
  bool push(std::uint64_t limit);
  bool empty() const { return messages_.empty() && frames_.empty(); }
  std::uint64_t num_bytes() const { return num_bytes_; }  // written so far
  // Forgets everything; a frame that was written in part stays so, and nothing can follow it.
  void abandon();
  // Forgets everything and completes the sends.
  void fail(const Status& why);

 private:
  struct Message {
    FrameHeader header;
    const std::byte* data;
    SendToken token;
    std::uint64_t offset = 0;
  };
  struct Frame {
    FrameHeaderBytes head;
    std::array<std::byte, kFrameTrailerBytes> trailer;
    ByteView payload;
    SendToken token;
    bool last;  // of its message
    std::size_t bytes() const {
      return head.size() + payload.size() + (payload.empty() ? 0 : trailer.size());
    }
  };
  void prepare();
  void written(std::size_t count);

  runtime::Stream& stream_;
  Endpoint& endpoint_;
  std::deque<Message> messages_;  // not cut yet, the first one from `offset` on
  std::deque<Frame> frames_;      // ready to be written, a few
  std::size_t first_done_ = 0;    // bytes of the first frame that are written
  std::uint64_t num_bytes_ = 0;
  bool stopped_ = false;
};

}  // namespace trireme::net::tcp
