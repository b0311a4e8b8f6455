// No rule with any codec, on hosts or GPUs, with weights of its own or shared, has two users of one slot.
#include "trireme/plan/slots.h"

#include <gtest/gtest.h>

#include <set>

#include "trireme/agree/agree.h"
#include "trireme/codec/codec.h"
#include "trireme/job/job.h"
#include "trireme/job/job_parts.h"

namespace trireme::job {
namespace {

using plan::SlotKind;

// What the buckets of a job may be, one kind for each way that the job can run.
std::set<SlotKind> kinds_of(const agree::AgreementRow& rule, const std::string& codec) {
  const bool dense = codec == "none" || codec == "factors";
  if (rule.pace == agree::Pace::kStep) {
    std::set<SlotKind> kinds{dense                 ? SlotKind::kDense
                             : codec == "powersgd" ? SlotKind::kLowRank
                                                   : SlotKind::kCoded};
    kinds.insert(SlotKind::kDevice);
    Job job;
    job.parallel.agreement = rule.name;
    job.parallel.codec = codec;
    if (dense) kinds.insert({SlotKind::kDivided, SlotKind::kDealt});
    if (can_share_weights(job, sending_of(job), "shm", 2).ok()) kinds.insert(SlotKind::kShared);
    return kinds;
  }
  if (rule.pace == agree::Pace::kPeriod) return {dense ? SlotKind::kMeans : SlotKind::kChanges};
  return {SlotKind::kLetters};
}

TEST(Slots, NoRuleWithAnyCodecHasTwoUsersOfOne) {
  std::vector<std::string> codecs{"none", "factors", "powersgd"};
  for (const codec::CodecRow& row : codec::codec_table()) codecs.emplace_back(row.name);
  for (const agree::AgreementRow& rule : agree::agreement_table())
    for (const std::string& codec : codecs)
      for (const SlotKind kind : kinds_of(rule, codec)) {
        const std::vector<SlotKind> buckets(9, kind);
        std::set<plan::Slot> taken;
        for (const plan::SlotUser& user : plan::users_of(buckets))
          EXPECT_TRUE(taken.insert(user.slot).second)
              << rule.name << " with " << codec << ": " << user.what << " at " << user.slot;
      }
}

TEST(Slots, SharedWeightsAreForSumsThatNeedNoSecondCall) {
  for (const agree::AgreementRow& rule : agree::agreement_table())
    for (const codec::CodecRow& row : codec::codec_table()) {
      const std::set<SlotKind> kinds = kinds_of(rule, row.name);
      EXPECT_FALSE(kinds.contains(SlotKind::kShared)) << rule.name << " with " << row.name;
    }
}

}  // namespace
}  // namespace trireme::job
