// Every codec on every link of servers and peers: workers that see one class each come to one model that
// knows all.
#include "tests/train/coded_links.h"

#include <gtest/gtest.h>

#include "trireme/agree/agree.h"
#include "trireme/codec/codec.h"

namespace trireme::train::testing {
namespace {

TEST(EveryCodedLink, ComesToAModelThatKnowsWhatEachWorkerHasSeen) {
  int runs = 0;
  for (const agree::AgreementRow& rule : agree::agreement_table()) {
    if (rule.no_codec != nullptr || rule.pace == agree::Pace::kStep) continue;
    for (const codec::CodecRow& codec : codec::codec_table()) {
      SCOPED_TRACE(fmt::format("{} {}", rule.name, codec.name));
      EXPECT_GE(simulate_coded(coded_by_class(rule.name, codec.name)).test_accuracy, 0.9);
      ++runs;
    }
  }
  EXPECT_GE(runs, 8 * 8);
}

TEST(EveryCodedLink, MayEncodePullsWhereTheErrorIsShorterThanTheChange) {
  for (const agree::AgreementRow& rule : agree::agreement_table()) {
    if (rule.no_codec != nullptr || !rule.needs_server) continue;
    for (const codec::CodecRow& codec : codec::codec_table()) {
      if (codec.bound == codec::Bound::kUnbiased) continue;
      SCOPED_TRACE(fmt::format("{} {}", rule.name, codec.name));
      job::Job job = coded_by_class(rule.name, codec.name);
      job.parallel.codec_options.set("pull", true);
      EXPECT_GE(simulate_coded(job).test_accuracy, 0.9);
    }
  }
}

}  // namespace
}  // namespace trireme::train::testing
