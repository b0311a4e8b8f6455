// One input of the frame parser's fuzz target. Shared by the libFuzzer program and by the test that replays
// its corpus.
//
// The first byte says how the rest is cut in pieces: frames must not depend on it.
#pragma once

#include <algorithm>
#include <vector>

#include "trireme/base/check.h"
#include "trireme/net/frame.h"

namespace trireme::net {

struct ParsedFrames {
  std::vector<FrameHeader> headers;
  Bytes payload;  // of all frames
  std::size_t complete = 0;
  Status failure;
};

inline ParsedFrames parse_in_pieces(ByteView bytes, std::size_t piece_bytes) {
  ParsedFrames out;
  FrameParser parser;
  while (!bytes.empty() && out.failure.ok()) {
    ByteView piece = bytes.first(std::min(piece_bytes, bytes.size()));
    bytes = bytes.subspan(piece.size());
    for (bool more = true; more;) {
      const auto event = parser.next(piece);
      if (!event.ok()) {
        out.failure = event.status();
        break;
      }
      switch (*event) {
        case FrameParser::Event::kMore:
          TR_CHECK(piece.empty());
          more = false;
          break;
        case FrameParser::Event::kHeader:
          TR_CHECK(check_frame_header(parser.header()).ok());
          TR_CHECK(parser.payload_left() <= kMaxFramePayload);
          out.headers.push_back(parser.header());
          break;
        case FrameParser::Event::kPayload: {
          const ByteView payload = piece.first(std::min<std::size_t>(piece.size(), parser.payload_left()));
          out.payload.insert(out.payload.end(), payload.begin(), payload.end());
          parser.took(payload);
          piece = piece.subspan(payload.size());
          break;
        }
        case FrameParser::Event::kFrame:
          ++out.complete;
          break;
      }
    }
  }
  return out;
}

// How many frames were complete.
inline std::size_t run_frame_target(ByteView bytes) {
  if (bytes.empty()) return 0;
  const std::size_t piece_bytes = static_cast<std::size_t>(bytes[0]) + 1;
  bytes = bytes.subspan(1);
  const ParsedFrames whole = parse_in_pieces(bytes, bytes.size() + 1);
  const ParsedFrames cut = parse_in_pieces(bytes, piece_bytes);
  TR_CHECK(whole.headers == cut.headers && whole.payload == cut.payload && whole.complete == cut.complete);
  TR_CHECK(whole.failure.message() == cut.failure.message());
  for (const FrameHeader& header : whole.headers) {
    const auto again = parse_frame_header(encode(header));
    TR_CHECK(again.ok() && *again == header);
  }
  return whole.complete;
}

}  // namespace trireme::net
