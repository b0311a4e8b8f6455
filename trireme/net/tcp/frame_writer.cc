#include "trireme/net/tcp/frame_writer.h"

#include <algorithm>
#include <utility>

#include "trireme/base/crc32c.h"

namespace trireme::net::tcp {
namespace {
constexpr std::size_t kPiecesPerFrame = 3;
constexpr std::size_t kFramesAhead = runtime::Stream::kMaxPieces / kPiecesPerFrame;
}  // namespace

void FrameWriter::add(const FrameHeader& header, const std::byte* data, SendToken token) {
  messages_.push_back({header, data, token});
}

void FrameWriter::abandon() {
  messages_.clear();
  frames_.clear();
  stopped_ = true;
}

void FrameWriter::fail(const Status& why) {
  for (const Frame& frame : frames_)
    if (frame.last) endpoint_.end_send_later(frame.token, why);
  for (const Message& message : messages_) endpoint_.end_send_later(message.token, why);
  abandon();
}

// Cuts frames until a write's worth is ready. The checksum runs over each payload just before it is written,
// so that the write finds it in the cache.
void FrameWriter::prepare() {
  while (frames_.size() < kFramesAhead && !messages_.empty()) {
    Message& m = messages_.front();
    const std::uint64_t total = m.header.phantom ? 0 : m.header.message_bytes;
    const auto payload = std::min<std::uint64_t>(total - m.offset, kMaxFramePayload);
    m.header.offset = m.offset;
    m.header.payload_bytes = static_cast<std::uint32_t>(payload);
    m.header.more = m.offset + payload < total;
    Frame& frame = frames_.emplace_back();
    frame.head = encode(m.header);
    if (payload > 0) {
      frame.payload = {m.data + m.offset, static_cast<std::size_t>(payload)};
      const std::uint32_t crc = crc32c(frame.payload);
      std::memcpy(frame.trailer.data(), &crc, sizeof(crc));
    }
    frame.token = m.token;
    frame.last = !m.header.more;
    m.offset += payload;
    if (frame.last) messages_.pop_front();
  }
}

bool FrameWriter::push(std::uint64_t limit) {
  bool progress = false;
  for (std::uint64_t moved = 0; !stopped_ && moved < limit && !empty();) {
    prepare();
    std::array<ByteView, kFramesAhead * kPiecesPerFrame> pieces;
    std::size_t num_pieces = 0, skip = first_done_, wanted = 0;
    for (const Frame& frame : frames_)
      for (const ByteView piece : {ByteView(frame.head), frame.payload, ByteView(frame.trailer)}) {
        if (frame.payload.empty() && piece.data() == frame.trailer.data()) continue;
        const std::size_t skipped = std::min(skip, piece.size());
        skip -= skipped;
        if (piece.size() == skipped) continue;
        pieces[num_pieces++] = piece.subspan(skipped);
        wanted += piece.size() - skipped;
      }
    const auto put = stream_.try_write(std::span(pieces).first(num_pieces));
    if (!put.ok() || *put == 0) break;  // a lost peer is noticed by the reader
    progress = true;
    moved += *put;
    written(*put);
    if (*put < wanted) break;
  }
  return progress;
}

void FrameWriter::written(std::size_t count) {
  num_bytes_ += count;
  first_done_ += count;
  while (!frames_.empty() && first_done_ >= frames_.front().bytes()) {
    const Frame& frame = frames_.front();
    first_done_ -= frame.bytes();
    if (frame.last) endpoint_.end_send_later(frame.token, ok_status());
    frames_.pop_front();
  }
}

}  // namespace trireme::net::tcp
