// Frames: how messages travel over a byte stream. docs/format_wire.md is the specification, this header its
// transcription.
//
// A frame is a header of 64 bytes, at most kMaxFramePayload bytes of payload, and, when there is a payload,
// its CRC32C. Long messages are cut in several frames. Pure: bytes in, values out; nothing here allocates by
// a length that came from outside.
#pragma once

#include <array>
#include <cstdint>

#include "trireme/base/bytes.h"
#include "trireme/base/status.h"

namespace trireme::net {

inline constexpr std::uint32_t kFrameMagic = 0x464D'5254;  // "TRMF" in memory order
inline constexpr std::uint8_t kFrameVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 64, kFrameTrailerBytes = 4;
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 40;
// 1 ms at 1 Gbit/s. Large enough that headers and system calls do not count.
inline constexpr std::uint32_t kMaxFramePayload = 128 * 1024;
inline constexpr std::uint32_t kMaxControlPayload = 1024;

enum class FrameType : std::uint8_t {
  kData = 1,
  kControl = 2,
  kHello = 3,  // setting up: rendezvous.h
  kJoin = 4,
  kTable = 5,
  kRefusal = 6,
};

struct FrameHeader {
  FrameType type = FrameType::kData;
  bool phantom = false;             // data: only the size travels
  bool more = false;                // data: another frame of the same message follows
  std::uint64_t high = 0, low = 0;  // data: Identity
  std::uint64_t fingerprint = 0;    // data
  std::uint64_t message_bytes = 0;  // of the whole message
  std::uint64_t offset = 0;         // of this payload in the message
  std::uint32_t payload_bytes = 0;  // in this frame

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;
FrameHeaderBytes encode(const FrameHeader& header);
// kMismatch: a frame of another version. kCorrupt: anything else that is not a frame of ours.
Result<FrameHeader> parse_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes);

// Checks what a header may say beyond its checksum: kinds, flags and lengths that fit together.
Status check_frame_header(const FrameHeader& header);

// Cuts a byte stream into frames as the bytes come, in pieces of any size. The payload is not kept: the
// caller takes it from `in`, or reads it from its source straight to where it belongs, and shows it for the
// checksum.
class FrameParser {
 public:
  enum class Event : std::uint8_t {
    kMore,     // `in` is used up, the frame is not complete
    kHeader,   // header() is known and right
    kPayload,  // the front of `in` is payload: take at most payload_left() and call took()
    kFrame,    // the frame is complete and its payload right
  };
  // Takes from the front of `in`. A failure sticks.
  Result<Event> next(ByteView& in);

  const FrameHeader& header() const { return header_; }
  std::uint32_t payload_left() const { return payload_left_; }
  // These bytes were the next of the payload (not more than payload_left()).
  void took(ByteView payload);

 private:
  enum class State : std::uint8_t { kInHeader, kInPayload, kInTrailer };
  bool fill(ByteView& in, std::size_t wanted);
  Result<Event> finish();

  State state_ = State::kInHeader;
  FrameHeader header_;
  FrameHeaderBytes buffer_;  // a part of a header or trailer
  std::size_t filled_ = 0;
  std::uint32_t payload_left_ = 0;
  std::uint32_t crc_ = 0;
  Status failure_;
};

// A whole small frame, for setting up and for control messages: header, payload, trailer.
Bytes make_frame(FrameType type, ByteView payload);

}  // namespace trireme::net
