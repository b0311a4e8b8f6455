// Reads frames from a stream without waiting: small ones many at a time through a buffer, large payloads
// straight to where they belong. Internal to net/tcp.
#pragma once

#include <memory>

#include "trireme/net/frame.h"
#include "trireme/runtime/network.h"

namespace trireme::net::tcp {

// Whoever takes the frames. Called inside pull(); must not destroy the reader.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A header came that is right by itself. False: nobody can take it now; it is offered again.
  virtual Result<bool> begin_frame(const FrameHeader& header) = 0;
  // Where the payload of the frame goes, payload_bytes of it; null: it is thrown away. May change or become
  // null between two calls, never the bytes that were placed already.
  virtual std::byte* target() = 0;
  virtual void end_frame(const FrameHeader& header) = 0;  // the payload is there and right
};

class FrameReader {
 public:
  FrameReader(runtime::Stream& stream, std::size_t inbox_bytes)
      : stream_(stream), inbox_bytes_(inbox_bytes) {}

  // Reads and hands out what is there, about `limit` bytes at most. True when something moved. A failure
  // (bytes that are no frames, or begin_frame's) sticks in failure().
  bool pull(FrameSink& sink, std::uint64_t limit);

  bool stands() const { return stands_; }  // begin_frame said: not now
  bool ended() const { return ended_; }    // the stream has, and all of it was handed out
  const Status& failure() const { return failure_; }
  std::uint64_t num_bytes() const { return num_bytes_; }  // read so far

 private:
  bool parse(FrameSink& sink);
  bool read(FrameSink& sink);
  bool take_payload(FrameSink& sink, ByteView& in);
  ByteView inbox() const { return {inbox_.get() + begin_, end_ - begin_}; }

  runtime::Stream& stream_;
  const std::size_t inbox_bytes_;
  std::unique_ptr<std::byte[]> inbox_;  // made when first needed
  std::size_t begin_ = 0, end_ = 0;     // what is in it and not parsed
  std::uint64_t num_bytes_ = 0;
  FrameParser parser_;
  bool offered_ = false;  // a header waits for begin_frame to agree
  bool stands_ = false, ended_ = false;
  bool drained_ = false;  // the last read took all there was
  Status failure_;
};

}  // namespace trireme::net::tcp
