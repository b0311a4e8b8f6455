#include "trireme/comm/call_book.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

using collective::Kind;

CallShape shape_of(Kind kind, std::int64_t count, int root = 0) {
  return {.kind = kind, .dtype = DType::kF32, .count = count, .root = root, .algorithm = "ring"};
}
net::Identity identity(std::uint16_t slot, std::uint32_t step) {
  return {.epoch = 1, .group = 3, .slot = slot, .step = step, .part = 0};
}
net::Fingerprint print_of(const CallShape& s) {
  return {.kind = static_cast<std::uint8_t>(s.kind), .count = static_cast<std::uint64_t>(s.count)};
}
net::CallId start(CallBook& book, std::uint16_t slot, std::uint32_t step, const CallShape& s) {
  const net::CallId id = book.count(identity(slot, step));
  book.started(id, print_of(s), s, fmt::format("call {}", slot));
  return id;
}

TEST(CallBook, SaysACallInWords) {
  EXPECT_EQ(in_words(shape_of(Kind::kAllreduce, 100)), "allreduce of 100 f32 (sum, ring)");
  EXPECT_EQ(in_words(shape_of(Kind::kBroadcast, 7, 2)), "broadcast of 7 f32 from root 2 (ring)");
  EXPECT_EQ(in_words(shape_of(Kind::kGather, 7, 1)), "gather of 7 f32 to root 1 (ring)");
  EXPECT_EQ(in_words(shape_of(Kind::kBarrier, 0)), "barrier (ring)");
}

TEST(CallBook, CountsTurnsOfCallsWithOneName) {
  CallBook book;
  const CallShape a = shape_of(Kind::kAllreduce, 1), b = shape_of(Kind::kAllreduce, 2);
  const net::CallId first = start(book, 5, 9, a);
  book.ended(first);
  const net::CallId second = start(book, 5, 9, b);
  EXPECT_EQ(first.turn + 1, second.turn);
  EXPECT_EQ(book.find_call(first)->words, in_words(a));
  EXPECT_EQ(book.find_call(second)->words, in_words(b));
  EXPECT_EQ(book.latest_call(3, 5, 9)->id, second);
  EXPECT_EQ(start(book, 5, 10, a).turn, first.turn);
}

TEST(CallBook, KnowsWhetherThePlaceHadAnotherCallInTheStepBefore) {
  CallBook book;
  const CallShape sum = shape_of(Kind::kAllreduce, 8), other = shape_of(Kind::kBroadcast, 8);
  const auto is_new = [&](std::uint16_t slot, std::uint32_t step, const CallShape& s) {
    const net::CallId id = start(book, slot, step, s);
    const bool found = book.find_call(id)->is_new;
    book.ended(id);
    return found;
  };
  EXPECT_FALSE(is_new(1, 0, sum)) << "nothing was before";
  EXPECT_FALSE(is_new(1, 0, other)) << "another turn of the same step";
  EXPECT_FALSE(is_new(2, 0, other)) << "another slot";
  EXPECT_FALSE(is_new(1, 1, sum));
  EXPECT_TRUE(is_new(1, 1, sum)) << "the second turn was another call";
  EXPECT_TRUE(is_new(2, 4, sum)) << "steps between had none";
  EXPECT_FALSE(is_new(2, 5, sum)) << "of the latest step before";
}

TEST(CallBook, DigestTellsApartWhatMessagesDoNot) {
  CallBook book;
  CallShape near = shape_of(Kind::kBroadcast, 4, 1), far = shape_of(Kind::kBroadcast, 4, 65);
  CallShape other = near;
  other.algorithm = "binomial";
  CallShape cut = near;
  cut.parts = 12;
  std::vector<std::uint64_t> digests;
  for (const CallShape& s : {near, far, other, cut}) {
    const net::CallId id = book.count(identity(static_cast<std::uint16_t>(digests.size()), 0));
    book.started(id, {}, s, "");
    digests.push_back(book.find_call(id)->digest);
  }
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
}

TEST(CallBook, TellsOfACallOnceWhenItWasUnderWayTwice) {
  CallBook book;
  const net::CallId early = start(book, 0, 0, shape_of(Kind::kBarrier, 0));
  EXPECT_TRUE(book.lasting_calls(4).empty());
  const net::CallId late = start(book, 1, 0, shape_of(Kind::kBarrier, 0));
  EXPECT_EQ(book.lasting_calls(4), std::vector<net::CallId>{early});
  EXPECT_EQ(book.lasting_calls(4), std::vector<net::CallId>{late});
  EXPECT_TRUE(book.lasting_calls(4).empty());
}

TEST(CallBook, AtMostSoManyAreToldAtOnceAndTheRestLater) {
  CallBook book;
  for (std::uint16_t slot = 0; slot < 3; ++slot) start(book, slot, 0, shape_of(Kind::kBarrier, 0));
  EXPECT_TRUE(book.lasting_calls(2).empty());
  EXPECT_EQ(book.lasting_calls(2).size(), 2U);
  EXPECT_EQ(book.lasting_calls(2).size(), 1U);
}

TEST(CallBook, KeepsTheLastCallsAndThoseUnderWay) {
  CallBook book;
  const CallShape s = shape_of(Kind::kAllreduce, 8);
  const net::CallId lasting = start(book, 9, 0, s);
  std::vector<net::CallId> ids;
  for (std::uint32_t step = 0; step < 3 * CallBook::kKept; ++step) {
    ids.push_back(start(book, 1, step, s));
    book.ended(ids.back());
  }
  EXPECT_TRUE(book.find_call(lasting));
  EXPECT_EQ(book.num_under_way(), 1U);
  EXPECT_FALSE(book.find_call(ids.front()));
  for (std::size_t i = ids.size() - CallBook::kKept; i < ids.size(); ++i) EXPECT_TRUE(book.find_call(ids[i]));
}

TEST(CallBook, DoesNotGrowHoweverManyOverlap) {
  CallBook book;
  for (std::uint32_t step = 0; step < 20; ++step) {
    std::vector<net::CallId> ids;
    for (std::uint16_t slot = 0; slot < 2 * CallBook::kKept; ++slot)
      ids.push_back(start(book, slot, step, shape_of(Kind::kBarrier, 0)));
    for (const net::CallId& id : ids) book.ended(id);
    EXPECT_EQ(book.num_under_way(), 0U);
    EXPECT_TRUE(book.find_call(ids.back()));
    EXPECT_FALSE(book.find_call(ids.front()));
  }
  EXPECT_LE(book.num_entries(), 3 * CallBook::kKept + 1);
}

TEST(CallBook, CountsCallsThatItDoesNotKeep) {
  for (const bool near : {false, true}) {
    CallBook book;
    if (near) book.join(3);
    EXPECT_EQ(book.count(identity(2, 7)).turn, 1U);
    EXPECT_EQ(book.count(identity(2, 7)).turn, 2U);
    EXPECT_EQ(book.count(identity(3, 7)).turn, 1U);
    EXPECT_EQ(book.count(identity(2, 8)).turn, 1U);
    EXPECT_FALSE(book.latest_call(3, 2, 7));
  }
}

TEST(CallBook, FindsACallUnderWayByItsText) {
  CallBook book;
  const net::CallId id = start(book, 4, 0, shape_of(Kind::kBarrier, 0));
  EXPECT_EQ(book.find_under_way("call 4"), id);
  book.ended(id);
  EXPECT_FALSE(book.find_under_way("call 4"));
}

TEST(CallBook, KnowsItsGroups) {
  CallBook book;
  book.join(4);
  EXPECT_TRUE(book.is_member(4));
  EXPECT_FALSE(book.is_member(5));
}

}  // namespace
}  // namespace trireme::comm
