// What a job can be told is listed at the rows of tables: every list makes sense by itself, and the keys are
// those of the lists.
#include <gtest/gtest.h>

#include <set>

#include "trireme/agree/agree.h"
#include "trireme/codec/coding.h"
#include "trireme/data/source.h"
#include "trireme/job/job.h"
#include "trireme/job/job_options.h"
#include "trireme/model/optimizer.h"
#include "trireme/model/optimizer_options.h"
#include "trireme/model/zoo.h"
#include "trireme/op/op.h"

namespace trireme::job {
namespace {

struct Row {
  std::string name;  // "optimizer adam"
  std::span<const OptionSpec> options;
  bool of_keys = true;  // options of models are a table in one key
};

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const agree::AgreementRow& row : agree::agreement_table())
    rows.push_back({fmt::format("agreement {}", row.name), row.options});
  for (const codec::CodecRow& row : codec::codec_table())
    rows.push_back({fmt::format("codec {}", row.name), row.options});
  rows.push_back({"links", codec::kLinkOptions});
  for (const data::DataKind& row : data::data_kinds())
    rows.push_back({fmt::format("data {}", row.name), row.options});
  for (const model::OptimizerRow& row : model::optimizer_table())
    rows.push_back({fmt::format("optimizer {}", row.name), row.options});
  for (const model::ZooRow& row : model::zoo())
    rows.push_back({fmt::format("model {}", row.name), row.options, false});
  rows.push_back({"the job", kJobOptions});
  return rows;
}

TEST(OptionRows, HaveUniqueNamesDocsAndDefaultsWithinTheirRanges) {
  for (const Row& row : all_rows()) {
    std::set<std::string_view> seen;
    for (const OptionSpec& spec : row.options) {
      EXPECT_TRUE(seen.insert(spec.name).second) << row.name << ": " << spec.name << " twice";
      const std::string_view name = spec.name;
      EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_."), std::string_view::npos)
          << row.name << ": " << name;
      EXPECT_GE(std::string_view(spec.doc).size(), 4U) << row.name << ": " << name;
      EXPECT_TRUE(!row.of_keys || std::string_view(spec.doc).ends_with('.')) << row.name << ": " << spec.doc;
      EXPECT_TRUE(spec.range.holds(spec.initial())) << row.name << ": the default of " << name;
      EXPECT_LE(spec.range.least, spec.range.most) << row.name << ": " << name;
    }
  }
}

// A range that ends nowhere is not said as "between 0 and inf".
TEST(OptionRows, SayTheirRangesInWords) {
  for (const Row& row : all_rows())
    for (const OptionSpec& spec : row.options) {
      const OptionRange any;
      if (spec.range.choices.empty() && spec.range.least == any.least && spec.range.most == any.most)
        continue;
      EXPECT_EQ(spec.range.text().find("inf"), std::string::npos) << row.name << ": " << spec.range.text();
    }
}

// An option of one name is one key, so its type and its meaning are the same at every row that has it.
TEST(OptionRows, ShareTheKindOfAnOptionThatSeveralHave) {
  for (const JobKey& key : job_keys()) {
    const auto* field = std::get_if<OptionField>(&key.field);
    if (field == nullptr) continue;
    for (const Row& row : all_rows()) {
      const bool own =
          row.of_keys && std::string_view(field->rows).find(row.name.substr(row.name.find(' ') + 1)) !=
                             std::string_view::npos;
      const OptionSpec* spec = own ? find_option(row.options, field->spec->name) : nullptr;
      if (spec == nullptr) continue;
      EXPECT_EQ(spec->default_value.index(), field->spec->default_value.index())
          << row.name << " " << key.path;
      EXPECT_EQ(spec->decides_bits, field->spec->decides_bits) << row.name << " " << key.path;
    }
  }
}

TEST(OptionRows, OfOptimizersAreTheAttributesOfTheirOps) {
  for (const model::OptimizerRow& row : model::optimizer_table()) {
    std::vector<OptionSpec> options(row.options.begin(), row.options.end());
    std::erase_if(options, [](const auto& o) { return std::string_view(o.name) == model::kInitialSum.name; });
    ASSERT_EQ(options.size(), row.op->attrs.size()) << row.name;
    for (std::size_t i = 0; i < options.size(); ++i) {
      EXPECT_EQ(options[i].name, row.op->attrs[i].name) << row.name;
      const op::AttrValue value =
          std::visit([](const auto& v) { return op::AttrValue(v); }, options[i].initial());
      EXPECT_EQ(value, row.op->attrs[i].default_value) << row.name << " " << options[i].name;
    }
  }
}

// Hashes of jobs hold the keys in their order with the defaults of some: those of a version that had them as
// fields of the job, so that its runs can be resumed.
TEST(OptionRows, HashesAreThoseOfOlderVersions) {
  const auto hash = [](const std::vector<std::string>& set) {
    Job job;
    for (const std::string& assignment : set) EXPECT_TRUE(set_job_key(job, assignment).ok()) << assignment;
    return job_sha256(job);
  };
  EXPECT_EQ(hash({}), "bbfe1949ce415470125351bb10ef493021e2f5434ca72ac67e78d19a0c4b52c0");
  EXPECT_EQ(
      hash({"data.kind=csv", "data.path=t.csv", "data.label=kind", "data.header=yes", "data.separator=;"}),
      "841971e6edfe7fccd6919d93ac4bfa018c7841aff2b7c3a4097b9457f15dcd73");
  EXPECT_EQ(hash({"data.kind=npy", "data.path=x", "data.pixels=bytes", "train.optimizer.kind=adamw",
                  "train.optimizer.fixed_after=5", "train.optimizer.beta1=0.8", "train.optimizer.clip_norm=1",
                  "train.optimizer.amsgrad=true", "train.optimizer.decay_by_lr=false"}),
            "ed3e35ff64daeb0b589abb837ef7f1eec2ecdbceca75e82e2294e3b624aac1ee");
  EXPECT_EQ(hash({"data.kind=synthetic", "data.shape=3x8x8", "data.classes=3", "data.num_train=50",
                  "train.optimizer.momentum=0.5", "train.optimizer.weight_decay=0.01", "train.events=false",
                  "parallel.codec=qsgd", "parallel.codec_bits=8"}),
            "886cc7c6b7e6d294806c911755f67d7890c50929a2da9f671de050080ec6da04");
}

}  // namespace
}  // namespace trireme::job
