// The verifier must refuse broken programs, each for its reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "trireme/collective/schedule.h"

namespace trireme::collective {
namespace {

using Programs = std::vector<RankProgram>;

Programs programs_of(const char* name, const ScheduleSpec& spec) {
  Programs programs;
  for (int r = 0; r < spec.world; ++r)
    programs.push_back(*build_program(**find_algorithm(spec.kind, name), spec, r));
  return programs;
}

Step& first_of(RankProgram& p, StepKind kind) {
  return *std::find_if(p.steps.begin(), p.steps.end(), [kind](const Step& s) { return s.kind == kind; });
}
Step& last_of(RankProgram& p, StepKind kind) {
  return *std::find_if(p.steps.rbegin(), p.steps.rend(), [kind](const Step& s) { return s.kind == kind; });
}

class BrokenRing : public ::testing::Test {
 protected:
  void SetUp() override {
    spec.world = 4;
    spec.count = 10;
    programs = programs_of("ring", spec);
    ASSERT_TRUE(verify_programs(programs, spec, false).ok());
  }
  void expect_refused(const std::string& reason, bool fixed_order = false) {
    const Status s = verify_programs(programs, spec, fixed_order);
    ASSERT_FALSE(s.ok()) << "expected: " << reason;
    EXPECT_NE(s.message().find(reason), std::string::npos) << s.message();
  }
  ScheduleSpec spec;
  Programs programs;
};

TEST_F(BrokenRing, WithADroppedSendHasNoSender) {
  Step& s = last_of(programs[2], StepKind::kSend);  // becomes a harmless copy onto itself
  s.kind = StepKind::kCopy;
  s.dst = s.src;
  expect_refused("a message has no sender: rank 3 waits for part 5 of rank 2");
}

TEST_F(BrokenRing, WithADroppedRecvHasNoReceiver) {
  Step& s = last_of(programs[2], StepKind::kRecv);
  s.kind = StepKind::kCopy;
  s.src = s.dst;
  expect_refused("a message has no receiver: rank 1 sends part 5 to rank 2");
}

TEST_F(BrokenRing, WithAShortMessageHasTwoSizes) {
  first_of(programs[0], StepKind::kSend).count -= 1;
  expect_refused("a message has two sizes");
}

TEST_F(BrokenRing, WithAWrongChunkAddsDifferentElements) {
  spec.world = 2;
  spec.count = 2;
  programs.assign(2, {});
  programs[1].rank = 1;
  Step send;
  send.kind = StepKind::kSend;
  send.peer = 1;
  send.count = 1;
  Step sum;
  sum.kind = StepKind::kRecvReduce;
  sum.peer = 0;
  sum.count = 1;
  sum.src.buffer = 1;
  sum.dst.offset = 1;
  programs[0].steps = {send};
  programs[1].steps = {sum};
  programs[1].scratch_elems = {1};
  expect_refused("step 0 of rank 1 adds different elements: 1 and 0");
}

TEST_F(BrokenRing, WithAWrongChunkInTheAllgatherHoldsTheWrongElement) {
  for (Step& s : programs[1].steps)
    if (s.kind == StepKind::kSend && s.part >= 3 && s.count == 2 && s.src.offset == 6) s.src.offset = 8;
  const Status s = verify_programs(programs, spec, false);
  ASSERT_FALSE(s.ok());
  // Depending on what was there at that time: too early a value, or another element.
  EXPECT_TRUE(s.message().find("race") != std::string::npos ||
              s.message().find("holds element") != std::string::npos)
      << s.message();
}

TEST_F(BrokenRing, WithADroppedDependencyIsARace) {
  Step& s = last_of(programs[0], StepKind::kSend);
  ASSERT_GT(s.num_deps, 0);
  s.num_deps = 0;
  expect_refused("race: steps");
}

TEST_F(BrokenRing, WithACopyInsteadOfASumMissesALeaf) {
  Step& s = first_of(programs[1], StepKind::kRecvReduceLeft);
  s.kind = StepKind::kRecv;
  expect_refused("leaf 1 0 times, expected once");
}

TEST_F(BrokenRing, WithALeafAddedTwiceIsRefused) {
  // Rank 1 adds its scratch a second time, after everything else of the reduce-scatter.
  RankProgram& p = programs[1];
  const Step sum = first_of(p, StepKind::kRecvReduceLeft);
  std::size_t at = 0;
  while (p.steps[at].kind != StepKind::kRecvReduceLeft) ++at;
  Step twice = sum;
  twice.kind = StepKind::kReduce;
  twice.first_dep = static_cast<std::uint32_t>(p.deps.size());
  twice.num_deps = 1;
  p.deps.push_back(static_cast<std::uint32_t>(at));
  // Inserted right behind; later indices move by one.
  p.steps.insert(p.steps.begin() + static_cast<std::ptrdiff_t>(at) + 1, twice);
  for (std::uint32_t& d : p.deps)
    if (d >= at && &d != &p.deps.back()) ++d;
  expect_refused("leaf 0 2 times, expected once");
}

TEST_F(BrokenRing, OutOfBoundsIsRefused) {
  first_of(programs[3], StepKind::kSend).src.offset = 9;
  expect_refused("out of bounds");
}

TEST_F(BrokenRing, IsNotTheFixedTree) {
  spec.count = 1;
  programs = programs_of("fixed-tree", spec);
  ASSERT_TRUE(verify_programs(programs, spec, true).ok());
  Step& s = first_of(programs[0], StepKind::kRecvReduce);
  s.kind = StepKind::kRecvReduceLeft;  // right + left
  expect_refused("is not the fixed tree: got ((x1 + x0) + (x2 + x3)), expected ((x0 + x1) + (x2 + x3))",
                 true);
}

TEST_F(BrokenRing, ThatWaitsInACycleIsRefused) {
  // Every rank sends only after it has received.
  spec.world = 2;
  spec.count = 2;
  programs.assign(2, {});
  for (int r = 0; r < 2; ++r) {
    RankProgram& p = programs[static_cast<std::size_t>(r)];
    p.rank = r;
    Step recv;
    recv.kind = StepKind::kRecv;
    recv.peer = 1 - r;
    recv.count = 2;
    Step send;
    send.kind = StepKind::kSend;
    send.peer = 1 - r;
    send.count = 2;
    send.num_deps = 1;
    p.steps = {recv, send};
    p.deps = {0};
  }
  expect_refused("a cycle waits");
}

TEST_F(BrokenRing, WithTwoOrdersOfAdditionIsRefused) {
  // Everybody sends its own value to the other and adds on its own side: same sum, different bits.
  spec.world = 2;
  spec.count = 1;
  programs.assign(2, {});
  for (int r = 0; r < 2; ++r) {
    RankProgram& p = programs[static_cast<std::size_t>(r)];
    p.rank = r;
    p.scratch_elems = {1};
    Step send;
    send.kind = StepKind::kSend;
    send.peer = 1 - r;
    send.count = 1;
    Step recv;
    recv.kind = StepKind::kRecv;
    recv.peer = 1 - r;
    recv.count = 1;
    recv.dst.buffer = 1;
    Step sum;
    sum.kind = StepKind::kReduce;
    sum.count = 1;
    sum.src.buffer = 1;
    sum.num_deps = 2;
    p.steps = {send, recv, sum};
    p.deps = {0, 1};
  }
  expect_refused("added in another order than on rank 0");
  programs[1].steps[2].kind = StepKind::kReduceLeft;
  EXPECT_TRUE(verify_programs(programs, spec, false).ok());
}

TEST(BrokenTree, ThatOverwritesAPartialBeforeItIsSentIsRefusedWhenTheyShareMemory) {
  ScheduleSpec spec;
  spec.world = 2;
  spec.count = 4;
  Programs programs = programs_of("fixed-tree", spec);
  ASSERT_TRUE(verify_programs(programs, spec, true).ok());
  for (RankProgram& p : programs)
    for (Step& s : p.steps)
      if (s.kind == StepKind::kRecv) s.num_deps = 0;  // no longer after the send of the partial
  const Status s = verify_programs(programs, spec, true);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.message().find("race"), std::string::npos) << s.message();
}

TEST(BrokenBroadcast, FromTheWrongRootIsRefused) {
  ScheduleSpec spec;
  spec.kind = Kind::kBroadcast;
  spec.world = 3;
  spec.count = 4;
  spec.root = 1;
  const Programs programs = programs_of("binomial", spec);
  spec.root = 2;
  const Status s = verify_programs(programs, spec, false);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.message().find("expected x2 of the root"), std::string::npos) << s.message();
}

// Everybody sends its value and only then receives: fine where a send is done at once, stuck where it needs
// its partner.
TEST_F(BrokenRing, ThatNeedsBufferedSendsIsRefused) {
  spec.world = 2;
  spec.count = 1;
  programs.assign(2, {});
  for (int r = 0; r < 2; ++r) {
    RankProgram& p = programs[static_cast<std::size_t>(r)];
    p.rank = r;
    p.scratch_elems = {1};
    Step send;
    send.kind = StepKind::kSend;
    send.peer = 1 - r;
    send.count = 1;
    Step sum;
    sum.kind = r == 0 ? StepKind::kRecvReduce : StepKind::kRecvReduceLeft;
    sum.peer = 1 - r;
    sum.count = 1;
    sum.src.buffer = 1;
    sum.num_deps = 1;
    p.steps = {send, sum};
    p.deps = {0};
  }
  expect_refused("it sends before its partner receives");
}

class BrokenReads : public ::testing::Test {
 protected:
  void SetUp() override {
    spec.world = 3;
    spec.count = 6;
    spec.peer_memory = true;
  }
  void expect_refused(const std::string& reason) {
    const Status s = verify_programs(programs, spec, false);
    ASSERT_FALSE(s.ok()) << "expected: " << reason;
    EXPECT_NE(s.message().find(reason), std::string::npos) << s.message();
  }
  ScheduleSpec spec;
  Programs programs;
};

TEST_F(BrokenReads, BeforeTheOwnerSaidThatItIsSummedAreARace) {
  programs = programs_of("two-shot", spec);
  ASSERT_TRUE(verify_programs(programs, spec, false).ok());
  for (Step& s : programs[1].steps)
    if (s.kind == StepKind::kReadPeer) s.num_deps = 0;
  expect_refused("race");
}

TEST_F(BrokenReads, ThatNobodyWaitsForAreRefused) {
  programs = programs_of("two-shot", spec);
  // Without the last round a rank leaves while others still read.
  for (RankProgram& p : programs)
    p.steps.erase(std::remove_if(p.steps.begin(), p.steps.end(),
                                 [](const Step& s) { return s.count == 0 && s.part == 2; }),
                  p.steps.end());
  expect_refused("may leave before");
}

TEST_F(BrokenReads, OutOfThePeersBoundsAreRefused) {
  programs = programs_of("one-shot", spec);
  ASSERT_TRUE(verify_programs(programs, spec, false).ok());
  first_of(programs[2], StepKind::kReadPeer).src.offset = 1;
  expect_refused("reads out of bounds");
}

TEST(BrokenGather, WithABlockInAnotherPlaceIsRefused) {
  ScheduleSpec spec;
  spec.kind = Kind::kGather;
  spec.world = 3;
  spec.count = 6;
  Programs programs = programs_of("direct", spec);
  ASSERT_TRUE(verify_programs(programs, spec, false).ok());
  for (Step& s : programs[0].steps) s.dst.offset = 6 - s.dst.offset;
  const Status s = verify_programs(programs, spec, false);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.message().find("holds element"), std::string::npos) << s.message();
}

TEST(BrokenBarrier, ThatHearsOnlyItsNeighbourIsRefused) {
  ScheduleSpec spec;
  spec.kind = Kind::kBarrier;
  spec.world = 4;
  Programs programs = programs_of("dissemination", spec);
  for (RankProgram& p : programs)
    p.steps.erase(std::remove_if(p.steps.begin(), p.steps.end(), [](const Step& s) { return s.part == 1; }),
                  p.steps.end());
  const Status s = verify_programs(programs, spec, false);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.message().find("rank 0 leaves the barrier without having heard of rank 1"), std::string::npos)
      << s.message();
}

}  // namespace
}  // namespace trireme::collective
