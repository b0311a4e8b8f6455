// Which agreement carries which codec: what is refused says why and what to set instead, what is not trains,
// and the table of docs/compression.md is what the code does.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/train/coded_links.h"
#include "trireme/agree/agree.h"
#include "trireme/codec/codec.h"

namespace trireme::train::testing {
namespace {

std::vector<std::string> all_codecs() {
  std::vector<std::string> names;
  for (const codec::CodecRow& row : codec::codec_table()) names.emplace_back(row.name);
  for (const char* more : {"powersgd", "factors", "auto"}) names.emplace_back(more);
  return names;
}

job::Job matrix_job(const agree::AgreementRow& rule, const std::string& codec) {
  job::Job job = coded_by_class(rule.name, codec);
  job.train.epochs = 100;
  job.train.steps = 20;
  if (codec == "factors") job.parallel.codec_options.erase("least");
  return job;
}

TEST(CodecMatrix, WhatIsCarriedTrainsAndWhatIsRefusedSaysWhyAndWhatToSet) {
  for (const agree::AgreementRow& rule : agree::agreement_table())
    for (const std::string& codec : all_codecs()) {
      SCOPED_TRACE(fmt::format("{} {}", rule.name, codec));
      const job::Job job = matrix_job(rule, codec);
      const Status status = job::check_job(job);
      if (status.ok()) {
        const record::Summary s = simulate_coded(job);
        EXPECT_TRUE(s.finished);
        EXPECT_GE(s.steps, 20);
        continue;
      }
      EXPECT_EQ(status.code(), Code::kInvalid);
      EXPECT_NE(status.message().find("parallel.codec"), std::string::npos) << status.message();
      EXPECT_NE(status.message().find(fmt::format("agreement '{}'", rule.name)), std::string::npos)
          << status.message();
      const bool advises = status.message().find("use parallel.") != std::string::npos ||
                           status.message().find("or parallel.agreement = bsp") != std::string::npos;
      EXPECT_TRUE(advises) << status.message();
    }
}

// The lines of the table. Codecs of single values go together.
std::vector<std::string> table() {
  std::vector<std::string> lines;
  for (const agree::AgreementRow& rule : agree::agreement_table()) {
    const auto carries = [&](const std::string& codec) {
      return job::check_job(matrix_job(rule, codec)).ok();
    };
    const bool values = carries("topk");
    for (const codec::CodecRow& row : codec::codec_table())
      EXPECT_EQ(carries(row.name), values) << rule.name << " " << row.name;
    const auto word = [&](bool yes) { return yes ? "yes" : "no"; };
    lines.push_back(fmt::format("| `{}` | {} | {} | {} | {} |", rule.name, word(values),
                                word(carries("powersgd")), word(carries("factors")), word(carries("auto"))));
  }
  return lines;
}

TEST(CodecMatrix, IsTheTableOfTheManual) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  std::ifstream in(std::string(root != nullptr ? root : ".") + "/docs/compression.md");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  ASSERT_FALSE(text.empty());
  for (const std::string& line : table())
    EXPECT_NE(text.find(line), std::string::npos) << "docs/compression.md, 'Which rule carries what', lacks\n"
                                                  << line;
}

}  // namespace
}  // namespace trireme::train::testing
