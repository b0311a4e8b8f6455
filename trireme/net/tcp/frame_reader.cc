#include "trireme/net/tcp/frame_reader.h"

#include <algorithm>
#include <array>

namespace trireme::net::tcp {
namespace {
// From this size on a payload is not worth a copy through the inbox: behind it only the trailer and the next
// header are read, so that the next payload goes straight too.
constexpr std::size_t kDirectBytes = 16 * 1024;
constexpr std::size_t kBetweenPayloads = kFrameTrailerBytes + kFrameHeaderBytes;
}  // namespace

bool FrameReader::pull(FrameSink& sink, std::uint64_t limit) {
  bool progress = false;
  stands_ = drained_ = false;
  std::uint64_t moved = 0;
  while (failure_.ok() && moved < limit) {
    progress |= parse(sink);
    if (stands_ || ended_ || drained_ || !failure_.ok()) break;
    const std::uint32_t left = parser_.payload_left();
    if (!read(sink)) break;
    progress = true;
    moved += (end_ - begin_) + (left - parser_.payload_left());
  }
  return progress;
}

// Hands out what the inbox holds.
bool FrameReader::parse(FrameSink& sink) {
  bool progress = false;
  while (failure_.ok()) {
    if (offered_) {
      const auto agreed = sink.begin_frame(parser_.header());
      if (!agreed.ok()) {
        failure_ = agreed.status();
        break;
      }
      stands_ = !*agreed;
      if (stands_) break;
      offered_ = false;
      progress = true;
    }
    ByteView in = inbox();
    const auto event = parser_.next(in);
    if (!event.ok()) {
      failure_ = event.status();
      break;
    }
    if (*event == FrameParser::Event::kPayload) take_payload(sink, in);
    begin_ = end_ - in.size();
    if (*event == FrameParser::Event::kMore) break;
    if (*event == FrameParser::Event::kHeader) offered_ = true;
    if (*event == FrameParser::Event::kFrame) sink.end_frame(parser_.header());
    progress = true;
  }
  return progress;
}

bool FrameReader::take_payload(FrameSink& sink, ByteView& in) {
  const ByteView piece = in.first(std::min<std::size_t>(in.size(), parser_.payload_left()));
  if (std::byte* target = sink.target())
    std::memcpy(target + (parser_.header().payload_bytes - parser_.payload_left()), piece.data(),
                piece.size());
  parser_.took(piece);
  in = in.subspan(piece.size());
  return true;
}

// One look at the stream. The inbox is empty before: parse() leaves nothing.
bool FrameReader::read(FrameSink& sink) {
  if (!inbox_) inbox_ = std::make_unique_for_overwrite<std::byte[]>(inbox_bytes_);
  const std::size_t left = parser_.payload_left();
  std::byte* target = left > 0 ? sink.target() : nullptr;
  std::array<MutByteView, 2> pieces;
  std::size_t num_pieces = 0, direct = 0;
  if (target != nullptr) {
    direct = left;
    pieces[num_pieces++] = {target + (parser_.header().payload_bytes - left), left};
  }
  pieces[num_pieces++] = {inbox_.get(), direct >= kDirectBytes ? kBetweenPayloads : inbox_bytes_};
  const auto got = stream_.try_read(std::span(pieces).first(num_pieces));
  begin_ = end_ = 0;
  if (!got.ok()) {
    ended_ = true;
    return false;
  }
  // Less than asked for is all there is: what came is handed out before anybody asks for more.
  num_bytes_ += *got;
  drained_ = *got < direct + pieces[num_pieces - 1].size();
  const std::size_t of_payload = std::min(*got, direct);
  if (of_payload > 0) parser_.took(pieces[0].first(of_payload));
  end_ = *got - of_payload;
  return *got > 0;
}

}  // namespace trireme::net::tcp
