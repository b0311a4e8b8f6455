// Letter<Head>: a letter whose head is a struct with named fields, and how such a head lies on the wire.
//
// A head has a kind, fields, where each of them lies (docs/format_wire.md, "Letters"), and, where it asks for
// something, what the answer says:
//
//   struct ScoresHead {
//     static constexpr std::uint16_t kKind = kLetterUserFirst;
//     std::uint32_t part = 0;
//     std::int64_t begin = 0, end = 0;
//     bool is_last = false;
//     static constexpr auto kFields =
//         head_fields(flag<1>(&ScoresHead::is_last), at<4>(&ScoresHead::part), at<8>(&ScoresHead::begin),
//                     at<16>(&ScoresHead::end));
//     using Answer = EmptyHead;
//   };
//
// Where there are several receivers of one sort (servers, buckets), the head has a kFirstKind, and who sends
// or handles gives the receiver's number. Heads that share their kinds have a kSort each. A field outside of
// the head, or one that covers another, does not compile.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

namespace trireme::comm {

// Bytes of the wire's head that belong to the fields: the mailbox has what is before and behind them.
inline constexpr std::size_t kHeadBegin = 2, kHeadEnd = 40;
// Flags are two bytes, of which heads that share a kind give the lower one to their sort.
inline constexpr std::size_t kFlagsAt = 2, kKeyAt = 4;

// What travels, as it lies in memory. Only this header reads `fields`; receivers get Letters.
struct Envelope {
  std::uint16_t kind = 0;
  std::array<std::byte, kHeadEnd - kHeadBegin> fields{};
  std::uint64_t ticket = 0;  // of a question, and of its answer: the mailbox's own
  std::uint64_t bytes = 0;   // of the payload: set by the mailbox

  template <typename T>
  T get(std::size_t offset) const {
    T value;
    std::memcpy(&value, fields.data() + (offset - kHeadBegin), sizeof(T));
    return value;
  }
  template <typename T>
  void put(std::size_t offset, T value) {
    std::memcpy(fields.data() + (offset - kHeadBegin), &value, sizeof(T));
  }
  // What the letter is about (a slice, a bucket), for error texts.
  std::uint32_t key() const { return get<std::uint32_t>(kKeyAt); }
};
static_assert(sizeof(Envelope) == 56 && std::is_trivially_copyable_v<Envelope>);

// One field: bits [kBegin, kEnd) of the wire's head.
template <std::size_t kOffset, typename Head, typename T>
struct HeadField {
  static constexpr std::size_t kBegin = 8 * kOffset, kEnd = kBegin + 8 * sizeof(T);
  T Head::*member;
  void write(const Head& head, Envelope& to) const { to.put(kOffset, head.*member); }
  void read(const Envelope& from, Head& head) const { head.*member = from.get<T>(kOffset); }
};
template <std::uint16_t kMask, typename Head>
struct HeadFlag {
  static constexpr std::size_t kBegin = 8 * kFlagsAt + std::countr_zero(kMask), kEnd = kBegin + 1;
  bool Head::*member;
  void write(const Head& head, Envelope& to) const {
    if (head.*member) to.put<std::uint16_t>(kFlagsAt, to.get<std::uint16_t>(kFlagsAt) | kMask);
  }
  void read(const Envelope& from, Head& head) const {
    head.*member = (from.get<std::uint16_t>(kFlagsAt) & kMask) != 0;
  }
};

// The field lies at this byte of the wire's head.
template <std::size_t kOffset, typename Head, typename T>
constexpr HeadField<kOffset, Head, T> at(T Head::*member) {
  static_assert((std::is_arithmetic_v<T> || std::is_enum_v<T>)&&!std::is_same_v<T, bool>,
                "a field is a number; bools are flags");
  static_assert(kOffset >= kHeadBegin && kOffset + sizeof(T) <= kHeadEnd,
                "the field does not fit into the head of a letter");
  static_assert(kOffset % sizeof(T) == 0, "fields lie at multiples of their size");
  return {member};
}
// The field is this bit of the wire's flags.
template <std::uint16_t kMask, typename Head>
constexpr HeadFlag<kMask, Head> flag(bool Head::*member) {
  static_assert(std::has_single_bit(kMask), "a flag is one bit");
  return {member};
}

template <typename... Fields>
constexpr bool are_apart() {
  constexpr std::size_t kCount = sizeof...(Fields);
  constexpr std::array<std::size_t, kCount> kBegins{Fields::kBegin...}, kEnds{Fields::kEnd...};
  for (std::size_t i = 0; i < kCount; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (kBegins[i] < kEnds[j] && kBegins[j] < kEnds[i]) return false;
  return true;
}
template <typename... Fields>
constexpr std::tuple<Fields...> head_fields(Fields... fields) {
  static_assert(are_apart<Fields...>(), "two fields of a head lie on each other");
  return {fields...};
}

template <typename H>
concept AnyHead = std::is_trivially_copyable_v<H> && requires {
  H::kFields;
};
template <typename H>
concept HeadWithKind = AnyHead<H> && requires {
  { H::kKind } -> std::convertible_to<std::uint16_t>;
};
template <typename H>
concept HeadOfMany = AnyHead<H> && requires {
  { H::kFirstKind } -> std::convertible_to<std::uint16_t>;
};
template <typename H>
concept HeadWithSort = HeadOfMany<H> && requires {
  { H::kSort } -> std::convertible_to<std::uint8_t>;
};
template <typename H>
concept QuestionHead = AnyHead<H> && requires {
  typename H::Answer;
};

// An answer that says nothing but that it came.
struct EmptyHead {
  static constexpr auto kFields = head_fields();
};

template <typename H>
struct AnswerTo {
  using Type = EmptyHead;
};
template <QuestionHead H>
struct AnswerTo<H> {
  using Type = typename H::Answer;
};

// What an answer goes to, and what it must say.
template <AnyHead Answer>
struct Ticket {
  std::uint64_t number = 0;
};

template <AnyHead H>
struct Letter {
  H head;
  Ticket<typename AnswerTo<H>::Type> ticket;
  std::uint64_t bytes = 0;  // of the payload
};

inline std::uint8_t sort_of(const Envelope& from) { return from.get<std::uint8_t>(kFlagsAt); }

template <HeadOfMany H>
constexpr std::uint16_t kind_of(int receiver) {
  return static_cast<std::uint16_t>(H::kFirstKind + receiver);
}

template <AnyHead H>
Envelope pack(std::uint16_t kind, const H& head) {
  Envelope out;
  out.kind = kind;
  if constexpr (HeadWithSort<H>) {
    constexpr auto kBehindSort = [](const auto&... field) {
      return ((std::decay_t<decltype(field)>::kBegin >= 8 * (kFlagsAt + 1)) && ...);
    };
    static_assert(std::apply(kBehindSort, H::kFields), "a field lies on the sort of its head");
    out.put<std::uint8_t>(kFlagsAt, H::kSort);
  }
  std::apply([&](const auto&... field) { (field.write(head, out), ...); }, H::kFields);
  return out;
}

// The kind, and the sort, are those of the head.
template <AnyHead H>
Letter<H> unpack(const Envelope& from) {
  Letter<H> out;
  std::apply([&](const auto&... field) { (field.read(from, out.head), ...); }, H::kFields);
  out.ticket.number = from.ticket;
  out.bytes = from.bytes;
  return out;
}

}  // namespace trireme::comm
