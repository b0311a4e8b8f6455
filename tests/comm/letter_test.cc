// Heads of letters on the wire (docs/format_wire.md, "Letters").
#include "trireme/comm/letter.h"

#include <gtest/gtest.h>

#include <cstring>

#include "trireme/comm/letter_kinds.h"
#include "trireme/comm/mailbox.h"

namespace trireme::comm {
namespace {

enum class Colour : std::uint16_t { kRed = 1, kBlue = 2 };

struct FullHead {
  static constexpr std::uint16_t kKind = kLetterUserFirst + 2;
  bool low = false, high = false;
  std::uint32_t key = 0;
  std::int64_t clock = 0, number = 0;
  double value = 0, value2 = 0;
  static constexpr auto kFields =
      head_fields(flag<0x1>(&FullHead::low), flag<0x8000>(&FullHead::high), at<4>(&FullHead::key),
                  at<8>(&FullHead::clock), at<16>(&FullHead::number), at<24>(&FullHead::value),
                  at<32>(&FullHead::value2));
};

struct ColourHead {
  static constexpr std::uint16_t kFirstKind = 100;
  static constexpr std::uint8_t kSort = 7;
  bool is_bright = false;
  std::uint32_t key = 0;
  static constexpr auto kFields = head_fields(flag<0x100>(&ColourHead::is_bright), at<4>(&ColourHead::key));
};
struct PlainColourHead {
  static constexpr std::uint16_t kFirstKind = 100;
  static constexpr std::uint8_t kSort = 8;
  std::int64_t clock = 0;
  static constexpr auto kFields = head_fields(at<8>(&PlainColourHead::clock));
};

struct ColourAnswer {
  Colour colour = Colour::kRed;
  static constexpr auto kFields = head_fields(at<2>(&ColourAnswer::colour));
};

// The head as docs/format_wire.md has it, field by field.
struct WireHead {
  std::uint16_t kind, flags;
  std::uint32_t key;
  std::int64_t clock, number;
  double value, value2;
  std::uint64_t ticket, bytes;
};
WireHead on_wire(const Envelope& envelope) {
  static_assert(sizeof(WireHead) == sizeof(Envelope));
  WireHead head;
  std::memcpy(&head, &envelope, sizeof(head));
  return head;
}

TEST(LetterHead, LiesOnTheWireWhereTheFormatSaysAndComesBackTheSame) {
  const FullHead head{true, true, 0xFFFFFFFE, -5, INT64_MIN, 0.25, -1e300};
  Envelope envelope = pack(FullHead::kKind, head);
  envelope.ticket = 77;
  envelope.bytes = 12;
  const WireHead wire = on_wire(envelope);
  EXPECT_EQ(wire.kind, kLetterUserFirst + 2);
  EXPECT_EQ(wire.flags, 0x8001);
  EXPECT_EQ(wire.key, 0xFFFFFFFE);
  EXPECT_EQ(wire.clock, -5);
  EXPECT_EQ(wire.number, INT64_MIN);
  EXPECT_EQ(wire.value, 0.25);
  EXPECT_EQ(wire.value2, -1e300);
  EXPECT_EQ(wire.ticket, 77U);
  EXPECT_EQ(wire.bytes, 12U);
  EXPECT_EQ(envelope.key(), 0xFFFFFFFE);
  const Letter<FullHead> back = unpack<FullHead>(envelope);
  EXPECT_TRUE(back.head.low && back.head.high);
  EXPECT_EQ(back.head.key, head.key);
  EXPECT_EQ(back.head.clock, head.clock);
  EXPECT_EQ(back.head.number, head.number);
  EXPECT_EQ(back.head.value, head.value);
  EXPECT_EQ(back.head.value2, head.value2);
  EXPECT_EQ(back.ticket.number, 77U);
  EXPECT_EQ(back.bytes, 12U);
}

TEST(LetterHead, LeavesZerosWhereItHasNoField) {
  const WireHead wire = on_wire(pack(0, ColourAnswer{Colour::kBlue}));
  EXPECT_EQ(wire.flags, 2);
  EXPECT_EQ(wire.key, 0U);
  EXPECT_EQ(wire.clock, 0);
  EXPECT_EQ(wire.number, 0);
  EXPECT_EQ(wire.value, 0);
  EXPECT_EQ(wire.value2, 0);
  EXPECT_EQ(unpack<ColourAnswer>(pack(0, ColourAnswer{Colour::kBlue})).head.colour, Colour::kBlue);
}

TEST(LetterHead, OfASharedKindIsToldApartByTheLowByteOfTheFlags) {
  const Envelope bright = pack(kind_of<ColourHead>(3), ColourHead{true, 9});
  EXPECT_EQ(on_wire(bright).kind, 103);
  EXPECT_EQ(on_wire(bright).flags, 0x107);
  std::string seen;
  struct Look {
    std::string& seen;
    void operator()(const Letter<ColourHead>& l) const { seen += l.head.is_bright ? "bright " : "dark "; }
    void operator()(const Letter<PlainColourHead>& l) const { seen += std::to_string(l.head.clock) + " "; }
    void operator()(const UnknownLetter& l) const { seen += "unknown " + std::to_string(l.flags); }
  };
  Envelope unknown = bright;
  unknown.put<std::uint16_t>(kFlagsAt, 0x109);
  for (const Envelope& e : {bright, pack(kind_of<PlainColourHead>(3), PlainColourHead{4}), unknown})
    with_sort<ColourHead, PlainColourHead>(e, Look{seen});
  EXPECT_EQ(seen, "bright 4 unknown 265");
}

// head_fields() refuses such fields at compile time.
TEST(LetterHead, WhoseFieldsCoverEachOtherIsNone) {
  using First = HeadField<8, FullHead, std::int64_t>;
  using Second = HeadField<12, FullHead, std::uint32_t>;
  using Bit = HeadFlag<0x4, FullHead>;
  using Flags = HeadField<2, FullHead, std::uint16_t>;
  EXPECT_TRUE((are_apart<First, HeadField<16, FullHead, std::int64_t>, Bit>()));
  EXPECT_FALSE((are_apart<First, Second>()));
  EXPECT_FALSE((are_apart<Bit, Flags>()));
  EXPECT_TRUE((are_apart<Bit, HeadFlag<0x8, FullHead>>()));
  EXPECT_FALSE((are_apart<Bit, HeadFlag<0x4, FullHead>>()));
}

}  // namespace
}  // namespace trireme::comm
