#include "trireme/net/frame.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/check.h"
#include "trireme/base/crc32c.h"

namespace trireme::net {
namespace {

constexpr std::uint16_t kPhantomFlag = 1, kMoreFlag = 2;
constexpr std::size_t kCrcAt = kFrameHeaderBytes - 4;

// The bytes of a header, see docs/format_wire.md.
struct Wire {
  std::uint32_t magic;
  std::uint8_t version;
  std::uint8_t type;
  std::uint16_t flags;
  std::uint64_t high, low, fingerprint, message_bytes, offset;
  std::uint32_t payload_bytes;
  std::uint32_t zero;
  std::uint32_t zero2;
  std::uint32_t crc;
};
static_assert(sizeof(Wire) == kFrameHeaderBytes && offsetof(Wire, crc) == kCrcAt);

Status corrupt(std::string_view what) {
  return error(Code::kCorrupt, "[net] the bytes are no frame: {}; the connection is unusable", what);
}

bool has_payload_kind(const FrameHeader& h) {
  const bool plain = !h.phantom && !h.more && h.offset == 0 && h.high == 0 && h.low == 0 &&
                     h.fingerprint == 0 && h.message_bytes == h.payload_bytes;
  return plain && h.payload_bytes <= (h.type == FrameType::kControl ? kMaxControlPayload : kMaxFramePayload);
}

}  // namespace

Status check_frame_header(const FrameHeader& h) {
  if (h.type < FrameType::kData || h.type > FrameType::kRefusal) return corrupt("its type is unknown");
  if (h.type != FrameType::kData)
    return has_payload_kind(h) ? Status() : corrupt("its fields do not suit its type");
  if (h.message_bytes > kMaxMessageBytes || h.payload_bytes > kMaxFramePayload)
    return corrupt("its length is out of bounds");
  if (h.phantom)
    return h.payload_bytes == 0 && h.offset == 0 && !h.more ? Status() : corrupt("a phantom has a payload");
  if (h.offset > h.message_bytes || h.payload_bytes > h.message_bytes - h.offset)
    return corrupt("its payload reaches beyond the message");
  if (h.more != (h.offset + h.payload_bytes < h.message_bytes) ||
      (h.payload_bytes == 0 && h.message_bytes != 0))
    return corrupt("its lengths contradict each other");
  return {};
}

FrameHeaderBytes encode(const FrameHeader& h) {
  Wire wire{};
  wire.magic = kFrameMagic;
  wire.version = kFrameVersion;
  wire.type = static_cast<std::uint8_t>(h.type);
  wire.flags = static_cast<std::uint16_t>((h.phantom ? kPhantomFlag : 0) | (h.more ? kMoreFlag : 0));
  wire.high = h.high;
  wire.low = h.low;
  wire.fingerprint = h.fingerprint;
  wire.message_bytes = h.message_bytes;
  wire.offset = h.offset;
  wire.payload_bytes = h.payload_bytes;
  FrameHeaderBytes out;
  std::memcpy(out.data(), &wire, sizeof(wire));
  const std::uint32_t crc = crc32c(ByteView(out).first(kCrcAt));
  std::memcpy(out.data() + kCrcAt, &crc, sizeof(crc));
  return out;
}

Result<FrameHeader> parse_frame_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  if (wire.magic != kFrameMagic) return corrupt("its magic is missing");
  if (wire.crc != crc32c(bytes.first(kCrcAt))) return corrupt("the checksum of its header is wrong");
  if (wire.version != kFrameVersion)
    return error(Code::kMismatch,
                 "[net] a frame of another version: got {}, expected {}; run one build everywhere",
                 wire.version, kFrameVersion);
  if ((wire.flags & ~(kPhantomFlag | kMoreFlag)) != 0 || wire.zero != 0 || wire.zero2 != 0)
    return corrupt("reserved bits are set");
  FrameHeader h;
  h.type = static_cast<FrameType>(wire.type);
  h.phantom = (wire.flags & kPhantomFlag) != 0;
  h.more = (wire.flags & kMoreFlag) != 0;
  h.high = wire.high;
  h.low = wire.low;
  h.fingerprint = wire.fingerprint;
  h.message_bytes = wire.message_bytes;
  h.offset = wire.offset;
  h.payload_bytes = wire.payload_bytes;
  TR_RETURN_IF_ERROR(check_frame_header(h));
  return h;
}

bool FrameParser::fill(ByteView& in, std::size_t wanted) {
  const std::size_t count = std::min(wanted - filled_, in.size());
  std::copy_n(in.begin(), count, buffer_.begin() + static_cast<std::ptrdiff_t>(filled_));
  in = in.subspan(count);
  filled_ += count;
  if (filled_ < wanted) return false;
  filled_ = 0;
  return true;
}

Result<FrameParser::Event> FrameParser::next(ByteView& in) {
  if (!failure_.ok()) return failure_;
  switch (state_) {
    case State::kInHeader: {
      if (!fill(in, kFrameHeaderBytes)) return Event::kMore;
      auto header = parse_frame_header(buffer_);
      if (!header.ok()) return failure_ = header.status();
      header_ = *header;
      payload_left_ = header_.payload_bytes;
      crc_ = 0;
      state_ = State::kInPayload;
      return Event::kHeader;
    }
    case State::kInPayload:
      if (header_.payload_bytes == 0) {
        state_ = State::kInHeader;
        return Event::kFrame;
      }
      if (payload_left_ > 0) return in.empty() ? Event::kMore : Event::kPayload;
      state_ = State::kInTrailer;
      [[fallthrough]];
    case State::kInTrailer:
      if (!fill(in, kFrameTrailerBytes)) return Event::kMore;
      return finish();
  }
  return failure_ = corrupt("the parser lost its state");
}

Result<FrameParser::Event> FrameParser::finish() {
  std::uint32_t expected = 0;
  std::memcpy(&expected, buffer_.data(), sizeof(expected));
  if (expected != crc_) return failure_ = corrupt("the checksum of its payload is wrong");
  state_ = State::kInHeader;
  return Event::kFrame;
}

void FrameParser::took(ByteView payload) {
  TR_CHECK(payload.size() <= payload_left_, "{} bytes of {}", payload.size(), payload_left_);
  crc_ = crc32c(payload, crc_);
  payload_left_ -= static_cast<std::uint32_t>(payload.size());
}

Bytes make_frame(FrameType type, ByteView payload) {
  FrameHeader header;
  header.type = type;
  header.message_bytes = payload.size();
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  TR_CHECK(check_frame_header(header).ok(), "a frame of {} bytes", payload.size());
  const FrameHeaderBytes head = encode(header);
  const std::size_t trailer = payload.empty() ? 0 : sizeof(std::uint32_t);
  Bytes out(head.size() + payload.size() + trailer);
  std::memcpy(out.data(), head.data(), head.size());
  if (payload.empty()) return out;
  std::memcpy(out.data() + head.size(), payload.data(), payload.size());
  const std::uint32_t checksum = crc32c(payload);  // the host is little-endian
  std::memcpy(out.data() + head.size() + payload.size(), &checksum, sizeof(checksum));
  return out;
}

}  // namespace trireme::net
