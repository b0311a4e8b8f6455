// Where models are cut for stages: by what travels over the job's link, by what fits, and the same everywhere
// where cuts decide bits.
#include "trireme/prepare/stage_cuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/job/job_options.h"
#include "trireme/job/job_parts.h"
#include "trireme/job/roles.h"
#include "trireme/prepare/memory_estimate.h"
#include "trireme/prepare/prepare.h"
#include "trireme/prepare/stage_report.h"

namespace trireme::prepare {
namespace {

using ::testing::HasSubstr;

job::Job on_stages(job::Job job, int stages) {
  job.parallel.mesh = fmt::format("stage={}", stages);
  job.parallel.transport = "inproc";
  job::take_workers_of_mesh(job, false);
  return job;
}

const model::ModelInput kPictures{Shape{3, 224, 224}, 1000};

job::Job vgg(const std::string& link, std::int64_t segments = 0) {
  job::Job job;
  job.model.name = "vgg16";
  job.train.batch = 64;
  job.parallel.link = link;
  job.options.set(job::kMicroBatches.name, std::int64_t{8});
  job.options.set(job::kSegments.name, segments);
  return on_stages(std::move(job), 4);
}

PrepareOptions four_stages(double bytes_per_second) {
  PrepareOptions options;
  options.stages = 4;
  options.compute_threads = 8;
  options.transport = "inproc";
  options.machine.cores = 8;
  options.link.bytes_per_second = bytes_per_second;
  cost::Rates rates;
  rates.machine = options.machine;
  rates.comm = cost::CommModel(options.link, options.machine);
  options.rates = std::make_shared<cost::Rates>(rates);
  return options;
}

constexpr double k100Mbit = 12.5e6;

double sent_bytes(const StagesReport& report) {
  double bytes = 0;
  for (const StageReport& stage : report.stages)
    for (const VirtualStageReport& run : stage.runs) bytes += run.forward_bytes + run.back_bytes;
  return bytes;
}

std::vector<std::string> layers_of(const StagesReport& report) {
  std::vector<std::string> names;
  for (const StageReport& stage : report.stages) names.push_back(stage.runs[0].first_layer);
  return names;
}

StagesReport report(const job::Job& job, const PrepareOptions& options) {
  auto found = report_stages(job, kPictures, options);
  EXPECT_TRUE(found.ok()) << found.status().to_string();
  return found.ok() ? *found : StagesReport();
}

TEST(StageCutsOfJobs, SendFewBytesOverTheSlowLinkOfAJob) {
  const PrepareOptions slow = four_stages(k100Mbit);
  const StagesReport plain = report(vgg(""), slow), fitted = report(vgg("100mbit"), slow);
  EXPECT_LT(3 * sent_bytes(fitted), sent_bytes(plain));
  EXPECT_LT(fitted.priced.price.makespan_seconds, 0.6 * plain.priced.price.makespan_seconds);
  EXPECT_EQ(plain.limit(), StageLimit::kLink);
  EXPECT_EQ(plain.stages[0].limit, StageLimit::kLink);
  for (const StageReport& stage : report(vgg(""), four_stages(1e12)).stages)
    EXPECT_EQ(stage.limit, StageLimit::kCompute);
}

// What is measured, and what machines there are, moves no cut between segments; nor does a link that is fast.
TEST(StageCutsOfJobs, FollowFromTheJobAloneWhereTheyDecideBits) {
  const auto cuts = [](const job::Job& job, const PrepareOptions& options) {
    const auto prepared = prepare(job, kPictures, options);
    EXPECT_TRUE(prepared.ok()) << prepared.status().to_string();
    return prepared.ok() ? (*prepared)->plan.segment_cuts : std::vector<std::string>();
  };
  PrepareOptions uneven = four_stages(1e5);
  auto rates = std::make_shared<cost::Rates>(*uneven.rates);
  rates->speeds = {1, 0.25, 1, 1};
  uneven.rates = rates;
  PrepareOptions unknown = four_stages(k100Mbit);
  unknown.rates = nullptr;
  const auto plain = cuts(vgg(""), unknown), linked = cuts(vgg("100mbit"), unknown);
  EXPECT_NE(plain, linked);
  EXPECT_EQ(cuts(vgg(""), uneven), plain);
  EXPECT_EQ(cuts(vgg("100gbit"), uneven), plain);
  EXPECT_EQ(cuts(vgg("100mbit"), uneven), linked);
  EXPECT_EQ(cuts(vgg("100mbit", 4), uneven), plain) << "train.segments fixes the arithmetic";
}

TEST(StageCutsOfJobs, StagesShareSegmentsByTheLinkThatIsKnown) {
  const PrepareOptions quick = four_stages(1e12), slow = four_stages(k100Mbit);
  const StagesReport fast = report(vgg("", 14), quick), fitted = report(vgg("", 14), slow);
  EXPECT_LT(2 * sent_bytes(fitted), sent_bytes(fast));
  EXPECT_NE(layers_of(fitted), layers_of(fast));
}

// Ranks may know other links than rank 0, whose word counts.
TEST(StageCutsOfJobs, StandAsRankZeroSharedThemAtThisStart) {
  PrepareOptions options = four_stages(1e12);
  const auto first = prepare(vgg("", 14), kPictures, options);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  PrepareOptions other = four_stages(k100Mbit);
  other.fixed = std::make_shared<const plan::Plan>((*first)->whole_plan());
  const auto runs = [](const plan::Plan& plan) {
    std::vector<std::int32_t> begins;
    for (const collective::LeafRun& run : plan.segment_owners) begins.push_back(run.first);
    return begins;
  };
  const auto anew = prepare(vgg("", 14), kPictures, other);
  other.owners_stand = true;
  const auto same = prepare(vgg("", 14), kPictures, other);
  ASSERT_TRUE(anew.ok() && same.ok());
  EXPECT_NE(runs((*anew)->plan), runs((*first)->plan)) << "a run that goes on elsewhere";
  EXPECT_EQ(runs((*same)->plan), runs((*first)->plan));
}

// The convolutions compute, the others have the parameters.
job::Job with_wide_layers() {
  job::Job job;
  job.model.layers = *parse_json(
      R"([{"kind": "conv2d", "out": 8, "window": 7, "padding": 3, "activation": "relu"},
          {"kind": "conv2d", "out": 8, "window": 7, "padding": 3, "activation": "relu"},
          {"kind": "conv2d", "out": 8, "window": 7, "padding": 3, "activation": "relu"},
          {"kind": "max_pool", "window": 4, "stride": 4}, {"kind": "dense", "out": 1024, "activation": "relu"},
          {"kind": "dense", "out": 1024, "activation": "relu"}, {"kind": "classifier"}])",
      "layers");
  job.train.batch = 64;
  job.options.set(job::kMicroBatches.name, std::int64_t{4});
  return on_stages(std::move(job), 2);
}

const model::ModelInput kDigits{Shape{1, 28, 28}, 10};

std::vector<std::int64_t> workers_of(const job::Job& job) {
  const auto bytes = estimate_workers(job, kDigits, 1);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  return bytes.ok() ? *bytes : std::vector<std::int64_t>{0};
}

std::vector<std::string> cuts_of(const job::Job& job) {
  PrepareOptions options;
  options.replicas = job::roles_of(job).num_replicas();
  options.tiles = job::tiles_of(job);
  options.stages = 2;
  options.transport = "inproc";
  const auto prepared = prepare(job, kDigits, options);
  EXPECT_TRUE(prepared.ok()) << prepared.status().to_string();
  return prepared.ok() ? (*prepared)->plan.segment_cuts : std::vector<std::string>();
}

// The place to cut into two stages whose fuller stage holds least, and what it holds.
std::pair<std::vector<std::string>, std::int64_t> least_bytes_of(const job::Job& job) {
  std::pair<std::vector<std::string>, std::int64_t> best;
  const auto model = job::build_job_model(job, kDigits, 1);
  EXPECT_TRUE(model.ok());
  const parallel::LayerList list = parallel::layers_of(model->train);
  for (std::size_t l = 1; l < list.layers.size(); ++l) {
    job::Job pinned = job;
    pinned.parallel.stage_cuts = std::vector<std::string>{list.layers[l].name};
    const std::vector<std::int64_t> bytes = workers_of(pinned);
    const std::int64_t most = *std::max_element(bytes.begin(), bytes.end());
    if (best.first.empty() || most < best.second) best = {*pinned.parallel.stage_cuts, most};
  }
  return best;
}

TEST(StageCutsOfJobs, MoveForAMemoryLimitBeforeAnythingIsRecomputed) {
  // The usual cut is by computation; pinned elsewhere, the fullest stage holds less.
  job::Job job = with_wide_layers();
  const std::vector<std::string> usual = cuts_of(job);
  const auto [best, least] = least_bytes_of(job);
  const std::vector<std::int64_t> free = workers_of(job);
  ASSERT_NE(best, usual);
  ASSERT_LT(least, *std::max_element(free.begin(), free.end()));
  job.train.memory_limit = std::to_string(least + least / 16);
  EXPECT_EQ(cuts_of(job), best);
  job::Job pinned = with_wide_layers();
  pinned.parallel.stage_cuts = best;
  EXPECT_EQ(workers_of(job), workers_of(pinned)) << "nothing is computed again";
  PrepareOptions options;
  options.stages = 2;
  options.transport = "inproc";
  const auto limited = report_stages(job, kDigits, options);
  ASSERT_TRUE(limited.ok()) << limited.status().to_string();
  for (const StageReport& stage : limited->stages) EXPECT_EQ(stage.limit, StageLimit::kMemory);
  EXPECT_LT(limited->unlimited_seconds, limited->priced.price.makespan_seconds);
  EXPECT_EQ(limited->limit(), StageLimit::kMemory);
  job.train.memory_limit = "1GiB";
  EXPECT_EQ(cuts_of(job), usual);
  const auto roomy = report_stages(job, kDigits, options);
  ASSERT_TRUE(roomy.ok()) << roomy.status().to_string();
  EXPECT_EQ(roomy->unlimited_seconds, roomy->priced.price.makespan_seconds);
  EXPECT_EQ(roomy->limit(), StageLimit::kCompute);
}

// The first stage keeps two versions of its weights, the last one.
TEST(StageCutsOfJobs, CountTheVersionsOfWeightsThatStagesKeep) {
  job::Job job;
  const Json dense{{"kind", "dense"}, {"out", 256}, {"activation", "relu"}};
  job.model.layers = Json::array();
  for (int l = 0; l < 16; ++l) job.model.layers.push_back(dense);
  job.model.layers.push_back({{"kind", "classifier"}});
  job.train.batch = 4;
  job.options.set(job::kPipeline.name, std::string("async"));
  job = on_stages(std::move(job), 2);
  const std::vector<std::string> usual = cuts_of(job);
  const auto [best, least] = least_bytes_of(job);
  ASSERT_NE(best, usual);
  job.train.memory_limit = std::to_string(least + least / 64);
  EXPECT_EQ(cuts_of(job), best);
  job::Job pinned = job;
  pinned.train.memory_limit = "";
  pinned.parallel.stage_cuts = best;
  EXPECT_EQ(workers_of(job), workers_of(pinned)) << "nothing is computed again";
}

// What is believed before the cut is what is predicted behind it, about.
TEST(StageCutsOfJobs, StayWhereDividedStagesAndTilesFit) {
  struct Case {
    const char* mesh;
    std::int64_t zero, batch, segments;
  };
  for (const Case& c : {Case{"data=2,stage=2", 0, 64, 0}, Case{"data=2,stage=2", 1, 64, 0},
                        Case{"data=2,stage=2", 2, 64, 0}, Case{"data=2,stage=2", 3, 64, 0},
                        Case{"data=4,stage=2", 3, 64, 4}, Case{"stage=2,model=2", 0, 512, 0}}) {
    SCOPED_TRACE(fmt::format("{}, zero {}", c.mesh, c.zero));
    job::Job job = with_wide_layers();
    job.parallel.mesh = c.mesh;
    job.given_at.erase("parallel.workers");
    job.train.batch = c.batch;
    job.train.optimizer.kind = "adam";
    job.options.set(job::kZero.name, c.zero);
    job.options.set(job::kSegments.name, c.segments);
    job::take_workers_of_mesh(job, false);
    const std::vector<std::int64_t> free = workers_of(job);
    const std::vector<std::string> usual = cuts_of(job);
    const std::int64_t most = *std::max_element(free.begin(), free.end());
    job.train.memory_limit = std::to_string(most + most / 8);
    EXPECT_EQ(cuts_of(job), usual);
    EXPECT_EQ(workers_of(job), free);
  }
}

// A run that goes on is cut as it was, whatever limit it has now.
TEST(StageCutsOfJobs, OfAStoredPlanAreThoseThatAreChecked) {
  job::Job job = with_wide_layers();
  PrepareOptions options;
  options.stages = 2;
  options.transport = "inproc";
  const auto prepared = prepare(job, kDigits, options);
  ASSERT_TRUE(prepared.ok()) << prepared.status().to_string();
  const auto stored = std::make_shared<const plan::Plan>((*prepared)->whole_plan());
  const auto [best, least] = least_bytes_of(job);
  job.train.memory_limit = std::to_string(least + least / 16);
  EXPECT_TRUE(check_stage_memory(job, kDigits).ok());
  const Status refused = check_stage_memory(job, kDigits, stored);
  EXPECT_EQ(refused.code(), Code::kInvalid);
  EXPECT_THAT(refused.message(), HasSubstr("nothing more can be computed again"));
  EXPECT_THAT(refused.message(), HasSubstr("the nearest limit that would do: train.memory_limit = \""));
}

// What a pipeline that never drains learns depends on who has which segments, so no speed moves them.
TEST(StageCutsOfJobs, FollowFromTheJobAloneWhereThePipelineNeverDrains) {
  const auto shares = [](const char* pipeline, std::vector<double> speeds) {
    job::Job job = with_wide_layers();
    job.options.set(job::kPipeline.name, std::string(pipeline));
    job.options.set(job::kSegments.name, std::int64_t{6});
    PrepareOptions options;
    options.stages = 2;
    options.transport = "inproc";
    auto rates = std::make_shared<cost::Rates>();
    rates->speeds = std::move(speeds);
    options.rates = rates;
    const auto prepared = prepare(job, kDigits, options);
    EXPECT_TRUE(prepared.ok()) << prepared.status().to_string();
    return prepared.ok() ? (*prepared)->plan.segment_owners[0].count : -1;
  };
  EXPECT_NE(shares("1f1b", {1, 0.1}), shares("1f1b", {0.1, 1}));
  EXPECT_EQ(shares("2bw", {1, 0.1}), shares("2bw", {0.1, 1}));
}

TEST(StageCutsOfJobs, ThatDoNotFitAreRefusedWithALimitThatWouldDo) {
  job::Job job = with_wide_layers();
  job.train.memory_limit = "100KiB";
  const Status refused = check_stage_memory(job, kDigits);
  ASSERT_EQ(refused.code(), Code::kInvalid);
  const std::string says = "the nearest limit that would do: train.memory_limit = \"";
  const std::size_t at = refused.message().find(says);
  ASSERT_NE(at, std::string::npos) << refused.message();
  const std::size_t begin = at + says.size();
  job.train.memory_limit = refused.message().substr(begin, refused.message().find('"', begin) - begin);
  EXPECT_TRUE(check_stage_memory(job, kDigits).ok()) << job.train.memory_limit;
}

}  // namespace
}  // namespace trireme::prepare
