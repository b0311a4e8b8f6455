// Keys that were renamed: files, --set and unfinished runs that use the old name still work.
#include <gtest/gtest.h>

#include "trireme/base/hash.h"
#include "trireme/job/job.h"

namespace trireme::job {
namespace {

TEST(RenamedKeys, AreReadUnderBothNamesAndWrittenUnderTheNewOne) {
  for (const char* name : {"neighbours", "neighbors"}) {
    const Result<Job> job =
        parse_job(fmt::format("[parallel]\nagreement = 'gossip'\n{} = 'ring'\n", name), "j");
    ASSERT_TRUE(job.ok()) << job.status().to_string();
    EXPECT_EQ(*job->parallel.agreement_options.find("neighbors"), OptionValue("ring"));
    EXPECT_TRUE(job->given_at.contains("parallel.neighbors")) << name;
    EXPECT_NE(to_toml(*job).find("\nneighbors = \"ring\"\n"), std::string::npos);
    Job set;
    EXPECT_TRUE(set_job_key(set, fmt::format("parallel.{}=ring", name)).ok());
    EXPECT_EQ(*set.parallel.agreement_options.find("neighbors"), OptionValue("ring"));
  }
}

// Plans and checkpoints of older runs hold hashes with the old name.
TEST(RenamedKeys, LeaveTheHashOfAJobAsItWas) {
  Job job;
  job.parallel.agreement = "gossip";
  job.parallel.agreement_options.set("neighbors", "ring");
  std::string text;
  for (const JobKey& key : job_keys()) {
    const std::string value = value_text(job, key);
    if (!key.decides_result || value.empty()) continue;
    text +=
        fmt::format("{} = {}\n", key.path == "parallel.neighbors" ? "parallel.neighbours" : key.path, value);
  }
  EXPECT_EQ(job_sha256(job), sha256_hex(as_bytes(text)));
}

TEST(RenamedKeys, AreToldUnderTheNewName) {
  const Result<Job> job = parse_job("[parallel]\nagreement = 'gossip'\nneighbours = 'all'\n", "j.toml");
  ASSERT_TRUE(job.ok());
  const std::string said = check_job(*job).message();
  EXPECT_NE(said.find("j.toml:3:"), std::string::npos) << said;
  EXPECT_NE(said.find("'parallel.neighbors': got \"all\", expected one of: random, ring, push-sum"),
            std::string::npos)
      << said;
}

}  // namespace
}  // namespace trireme::job
