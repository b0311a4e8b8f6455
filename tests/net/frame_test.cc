#include "trireme/net/frame.h"

#include <gtest/gtest.h>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/frame_target.h"
#include "trireme/base/crc32c.h"
#include "trireme/base/rng.h"

namespace trireme::net {
namespace {

FrameHeader data_header(std::uint64_t message, std::uint64_t offset, std::uint32_t payload) {
  FrameHeader h;
  h.high = 0x0000'0001'0002'0003;
  h.low = 0x0000'0004'0000'0005;
  h.fingerprint = 0x0102'0300'0000'0007;
  h.message_bytes = message;
  h.offset = offset;
  h.payload_bytes = payload;
  h.more = offset + payload < message;
  return h;
}

void append(Bytes& out, ByteView more) {
  const std::size_t at = out.size();
  out.resize(at + more.size());
  std::copy(more.begin(), more.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
}

Bytes data_frame(const FrameHeader& header, ByteView payload) {
  const FrameHeaderBytes head = encode(header);
  const std::uint32_t crc = crc32c(payload);
  Bytes out;
  append(out, head);
  append(out, payload);
  if (!payload.empty()) append(out, std::as_bytes(std::span(&crc, 1)));
  return out;
}

// docs/format_wire.md, "Frame": the table of offsets.
TEST(Frame, HeaderIsTheBytesOfTheSpecification) {
  const FrameHeaderBytes bytes = encode(data_header(0x0000'0011'2233'4455, 0x66, 0x77));
  EXPECT_EQ(as_text(ByteView(bytes).first(4)), "TRMF");
  EXPECT_EQ(to_hex(ByteView(bytes).subspan(4, 4)), "01010200");  // version, type data, flags: more
  EXPECT_EQ(to_hex(ByteView(bytes).subspan(8, 8)), "0300020001000000");
  EXPECT_EQ(to_hex(ByteView(bytes).subspan(16, 8)), "0500000004000000");
  EXPECT_EQ(to_hex(ByteView(bytes).subspan(24, 8)), "0700000000030201");
  EXPECT_EQ(to_hex(ByteView(bytes).subspan(32, 8)), "5544332211000000");
  EXPECT_EQ(to_hex(ByteView(bytes).subspan(40, 8)), "6600000000000000");
  EXPECT_EQ(to_hex(ByteView(bytes).subspan(48, 12)), "770000000000000000000000");
  std::uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + 60, 4);
  EXPECT_EQ(crc, crc32c(ByteView(bytes).first(60)));
}

TEST(Frame, EveryDamagedBitOfAHeaderIsFound) {
  FrameHeaderBytes bytes = encode(data_header(100, 0, 100));
  ASSERT_TRUE(parse_frame_header(bytes).ok());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_EQ(parse_frame_header(bytes).status().code(), Code::kCorrupt) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
}

TEST(Frame, AnotherVersionIsNamed) {
  FrameHeaderBytes bytes = encode(data_header(0, 0, 0));
  bytes[4] = std::byte{9};
  const std::uint32_t crc = crc32c(ByteView(bytes).first(60));
  std::memcpy(bytes.data() + 60, &crc, 4);
  const Status status = parse_frame_header(bytes).status();
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("got 9, expected 1"), std::string::npos) << status.message();
}

TEST(Frame, LengthsMustFitTogether) {
  const auto refused = [](auto change) {
    FrameHeader h = data_header(1000, 0, 1000);
    change(h);
    return parse_frame_header(encode(h)).status().code() == Code::kCorrupt;
  };
  EXPECT_FALSE(refused([](FrameHeader&) {}));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.type = static_cast<FrameType>(0); }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.type = static_cast<FrameType>(7); }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.more = true; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.payload_bytes = 999; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.payload_bytes = 1001; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.offset = 1; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.offset = UINT64_MAX; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.phantom = true; }));
  EXPECT_TRUE(refused([](FrameHeader& h) { h.type = FrameType::kControl; })) << "it has an identity";
  EXPECT_TRUE(refused([](FrameHeader& h) { h.message_bytes = kMaxMessageBytes + 1, h.more = true; }));
  EXPECT_TRUE(refused([](FrameHeader& h) {
    h.message_bytes = kMaxFramePayload + 1;
    h.payload_bytes = kMaxFramePayload + 1;
  }));
  EXPECT_TRUE(refused([](FrameHeader& h) {
    h = {};
    h.type = FrameType::kControl;
    h.message_bytes = h.payload_bytes = kMaxControlPayload + 1;
  }));
}

TEST(Frame, ParserTakesFramesInPiecesOfAnySize) {
  Bytes bytes, expected(3000);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::byte>(i * 7);
  const ByteView all(expected);
  append(bytes, data_frame(data_header(2500, 0, 1000), all.first(1000)));
  append(bytes, data_frame(data_header(2500, 1000, 1500), all.subspan(1000, 1500)));
  append(bytes, data_frame(data_header(0, 0, 0), {}));
  append(bytes, make_frame(FrameType::kControl, all.subspan(2500, 500)));
  append(bytes, make_frame(FrameType::kHello, {}));
  for (const std::size_t piece : {1U, 2U, 63U, 64U, 65U, 1000U, 100000U}) {
    const ParsedFrames parsed = parse_in_pieces(bytes, piece);
    EXPECT_TRUE(parsed.failure.ok()) << parsed.failure.to_string();
    EXPECT_EQ(parsed.complete, 5U) << piece;
    EXPECT_EQ(parsed.payload, expected);
  }
}

TEST(Frame, EveryDamagedBitOfAPayloadIsFoundAndTheFailureSticks) {
  const Bytes payload = to_bytes("thirty two bytes of payload here");
  Bytes bytes = make_frame(FrameType::kControl, payload);
  const Bytes good = bytes;
  for (std::size_t bit = 8 * kFrameHeaderBytes; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_EQ(parse_in_pieces(bytes, 1000).failure.code(), Code::kCorrupt) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  FrameParser parser;
  const Bytes nonsense(200, std::byte{1});
  ByteView in(nonsense);
  EXPECT_EQ(parser.next(in).status().code(), Code::kCorrupt);
  ByteView right(good);
  EXPECT_EQ(parser.next(right).status().code(), Code::kCorrupt);
}

// ---- The corpus of the fuzz target
std::vector<Bytes> corpus() {
  std::vector<Bytes> units = fuzz::found_units("frame");
  for (const auto& path : fuzz::named_units("frame")) units.push_back(fuzz::contents(path));
  return units;
}

TEST(Frame, CorpusOfTheFuzzTargetHoldsRightAndWrongFrames) {
  std::size_t with_frames = 0, without = 0;
  for (const Bytes& bytes : corpus()) ++(run_frame_target(bytes) > 0 ? with_frames : without);
  EXPECT_GE(with_frames, 4U);
  EXPECT_GE(without, 2U);
}

TEST(Frame, MutationsOfTheCorpusNeverCrash) {
  Philox random(11);
  for (const Bytes& seed : corpus())
    for (int i = 0; i < 2000; ++i) {
      Bytes bytes = seed;
      for (std::uint32_t edits = 1 + random.next_below(4); edits > 0 && !bytes.empty(); --edits) {
        const std::size_t at = random.next_below(static_cast<std::uint32_t>(bytes.size()));
        switch (random.next_below(3)) {
          case 0:
            bytes[at] = static_cast<std::byte>(random.next_u32());
            break;
          case 1:
            bytes.resize(at);
            break;
          default:
            bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin(),
                         bytes.begin() + static_cast<std::ptrdiff_t>(at));
        }
      }
      run_frame_target(bytes);
    }
}

}  // namespace
}  // namespace trireme::net
