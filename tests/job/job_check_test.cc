// Jobs that can be read and make no sense: which key, which value, what is expected, where it was given.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "trireme/job/job.h"
#include "trireme/model/optimizer.h"
#include "trireme/model/schedule.h"
#include "trireme/model/zoo.h"

namespace trireme::job {
namespace {

struct Case {
  std::vector<std::string> set;
  const char* said;
};

Status check_with(const std::vector<std::string>& set) {
  Job job;
  for (const std::string& assignment : set) {
    const Status status = set_job_key(job, assignment);
    EXPECT_TRUE(status.ok()) << assignment << ": " << status.to_string();
  }
  return check_job(job);
}

void expect_refused(std::span<const Case> cases) {
  for (const Case& c : cases) {
    const Status status = check_with(c.set);
    EXPECT_EQ(status.code(), Code::kInvalid) << c.said;
    EXPECT_NE(status.message().find(c.said), std::string::npos)
        << "got: " << status.message() << "\nexpected: " << c.said;
  }
}

TEST(CheckJob, AcceptsTheDefaultAndWhateverIsWithinItsRange) {
  for (const std::vector<std::string>& set : std::vector<std::vector<std::string>>{
           {},
           {"train.epochs=1", "train.batch=1"},
           {"train.batch=1048576"},
           {"train.logical_shards=65536", "train.batch=65536", "parallel.workers=65536"},
           {"train.target_accuracy=1"},
           {"data.test=0", "data.validation=0.5"},
           {"train.precision=bf16", "train.nan=skip"},
           {"model.name=mnist-cnn", "model.options={scale=0.5, dropout=0}"},
           {"model.layers=[{kind='classifier'}]"},
           {"train.optimizer.schedule=step", "train.optimizer.milestones=0.5,0.75"},
           {"data.kind=synthetic", "data.shape=3x8x8"},
           {"model.init_from=runs/a", "model.cut_at=fc2", "model.freeze=conv1"}})
    EXPECT_TRUE(check_with(set).ok()) << check_with(set).to_string();
}

TEST(CheckJob, MoreMicroBatchesThanMessagesHaveNumbersForAreNamed) {
  const Case cases[] = {{{"parallel.mesh=stage=20000", "parallel.workers=20000", "train.batch=1048576"},
                         "key 'parallel.micro_batches': got 0, expected between 1 and 65536 where"}};
  expect_refused(cases);
}

TEST(CheckJob, RefusesNamesThatDoNotExistWithThoseThatDo) {
  const Case cases[] = {
      {{"model.name=alexnot"}, "[model] no model is called 'alexnot'; expected one of: lenet, linear, mlp"},
      {{"model.task=guess"}, "key 'model.task': got \"guess\", expected one of: auto, classify, reconstruct"},
      {{"data.kind=mnist"}, "key 'data.kind': got \"mnist\", expected one of: digits, idx"},
      {{"data.partition=fair"}, "partition: got 'fair', expected random or by-class"},
      {{"data.header=maybe"}, "key 'data.header': got \"maybe\", expected one of: auto, yes, no"},
      {{"data.tokens=words"}, "expected one of: chars, bytes"},
      {{"train.nan=ignore"}, "key 'train.nan': got \"ignore\", expected one of: stop, skip"},
      {{"train.device=gpu"}, "key 'train.device': got \"gpu\", expected one of: cpu, cuda, auto"},
      {{"train.precision=f8"}, "key 'train.precision': got \"f8\", expected one of: f32, tf32, bf16, f16"},
      {{"train.optimizer.kind=adom"}, "no optimizer is called 'adom'; expected one of: sgd, momentum"},
      {{"train.optimizer.schedule=stair"},
       "key 'train.optimizer.schedule': got \"stair\", expected one of: constant"},
      {{"train.optimizer.schedule=stair", "train.optimizer.milestones=0.5"},
       "got \"stair\", expected one of: constant"},
      {{"parallel.agreement=magic"}, "'magic'; expected one of: bsp"},
      {{"parallel.codec=zip"},
       "key 'parallel.codec': got \"zip\", expected one of: none, auto, factors, powersgd"},
      {{"parallel.transport=pigeon"}, "expected one of: auto, shm, tcp, mpi, inproc"},
      {{"parallel.collective=star"}, "fixed-tree"},
      {{"parallel.collective=hierarchical"}, "an algorithm that needs no groups of ranks"},
  };
  expect_refused(cases);
}

TEST(CheckJob, RefusesValuesOutOfRange) {
  const Case cases[] = {
      {{"name="}, "key 'name': got \"\", expected a word without slashes or blanks"},
      {{"name=a/b"}, "key 'name': got \"a/b\", expected a word without slashes"},
      {{"name=a b"}, "expected a word"},
      {{"data.kind=idx"}, "key 'data.path': got \"\", expected a path, for kind 'idx'"},
      {{"data.limit_train=-1"}, "key 'data.limit_train': got -1, expected 0 or more"},
      {{"data.limit_test=-1"}, "key 'data.limit_test': got -1"},
      {{"data.test=1"}, "key 'data.test': got 1.0, expected a fraction, at least 0 and below 1"},
      {{"data.validation=-0.1"}, "key 'data.validation': got -0.1"},
      {{"data.prefetch=0"}, "key 'data.prefetch': got 0, expected between 1 and 64"},
      {{"data.kind=csv", "data.path=x", "data.separator=;;"},
       "key 'data.separator': got \";;\", expected one character, or tab"},
      {{"data.kind=images", "data.path=x"},
       "key 'data.shape': got \"\", expected channels, height and width, like 3x64x64"},
      {{"data.kind=synthetic", "data.shape=3x0"},
       "key 'data.shape': got \"3x0\", expected sizes from 1 on like 3x64x64"},
      {{"data.kind=images", "data.path=x", "data.shape=0"}, "key 'data.shape': got \"0\", expected sizes"},
      {{"data.context=0"}, "key 'data.context': got 0, expected between 1 and 1048576"},
      {{"data.stride=-1"}, "key 'data.stride': got -1, expected 0 or more"},
      {{"data.classes=0"}, "key 'data.classes': got 0, expected between 1 and"},
      {{"data.num_train=0"}, "key 'data.num_train': got 0, expected 1 or more"},
      {{"data.num_test=-1"}, "key 'data.num_test': got -1, expected 0 or more"},
      {{"data.augment.shift=-1"}, "key 'data.augment.shift': got -1, expected 0 or more pixels"},
      {{"data.augment.crop=0"}, "key 'data.augment.crop': got 0.0, expected above 0 and at most 1"},
      {{"train.epochs=0"}, "key 'train.epochs': got 0, expected 1 or more"},
      {{"train.steps=-1"}, "key 'train.steps': got -1, expected 0 or more"},
      {{"train.batch=0"}, "key 'train.batch': got 0, expected between 1 and 1048576"},
      {{"train.batch=1048577"}, "key 'train.batch': got 1048577, expected between 1 and 1048576"},
      {{"train.logical_shards=-1"}, "key 'train.logical_shards': got -1, expected between 0 and 65536"},
      {{"train.logical_shards=65537"}, "key 'train.logical_shards': got 65537"},
      {{"train.shard_threads=-1"}, "key 'train.shard_threads': got -1, expected between 0 and 1024"},
      {{"train.checkpoint_steps=-5"}, "key 'train.checkpoint_steps': got -5, expected 0 or more"},
      {{"train.eval_steps=-5"}, "key 'train.eval_steps': got -5, expected 0 or more"},
      {{"train.trace_steps=10001"}, "key 'train.trace_steps': got 10001, expected between 0 and 10000"},
      {{"train.target_accuracy=99"},
       "key 'train.target_accuracy': got 99.0, expected a fraction between 0 and 1, like 0.99"},
      {{"parallel.workers=0"}, "key 'parallel.workers': got 0, expected between 1 and 65536"},
      {{"parallel.servers=1"}, "key 'parallel.servers': got 1, expected 0: agreement 'bsp' uses no servers"},
      {{"parallel.bucket_bytes=-1"}, "key 'parallel.bucket_bytes': got -1, expected 1 or more, or 0"},
      {{"parallel.overlap=some"}, "key 'parallel.overlap': got \"some\", expected none, buckets or full"},
      {{"parallel.deadline_ms=99"}, "key 'parallel.deadline_ms': got 99, expected 100 or more"},
  };
  expect_refused(cases);
}

TEST(CheckJob, RefusesWhatAnOptimiserDoesNotHaveOrTake) {
  const Case cases[] = {
      {{"train.optimizer.lr=0"}, "key 'train.optimizer.lr': got 0.0, expected a learning rate above 0"},
      {{"train.optimizer.lr=1e6"},
       "key 'train.optimizer.lr': got 1000000.0, expected a learning rate above 0 and below 1000000"},
      {{"train.optimizer.lr=nan"}, "key 'train.optimizer.lr': got nan, expected a learning rate above 0"},
      {{"train.optimizer.lr=inf"}, "key 'train.optimizer.lr': got inf, expected a learning rate above 0"},
      {{"train.optimizer.momentum=1"},
       "key 'train.optimizer.momentum': got 1.0, expected at least 0 and below 1"},
      {{"train.optimizer.weight_decay=-1e-9"},
       "key 'train.optimizer.weight_decay': got -1e-09, expected 0 or more"},
      {{"train.optimizer.clip_norm=-1"}, "key 'train.optimizer.clip_norm': got -1.0, expected 0 or more"},
      {{"train.optimizer.kind=sgd", "train.optimizer.momentum=0.9"},
       "key 'train.optimizer.momentum': got 0.9, expected it not to be set: 'sgd' has only weight_decay; it "
       "is for momentum"},
      {{"train.optimizer.beta1=0.9"},
       "key 'train.optimizer.beta1': got 0.9, expected it not to be set: 'momentum' has only"},
      {{"train.optimizer.kind=adam", "train.optimizer.nesterov=true"},
       "key 'train.optimizer.nesterov': got true, expected it not to be set: 'adam' has only"},
      {{"train.optimizer.dampening=3"},
       "key 'train.optimizer.dampening': got 3.0, expected a value in [0, 1]"},
      {{"train.optimizer.kind=rmsprop", "train.optimizer.alpha=2"},
       "key 'train.optimizer.alpha': got 2.0, expected "},
      {{"train.optimizer.kind=adam", "train.optimizer.eps=-1"},
       "key 'train.optimizer.eps': got -1.0, expected "},
      {{"train.optimizer.kind=lars", "train.optimizer.trust=-1"},
       "key 'train.optimizer.trust': got -1.0, expected "},
      {{"train.optimizer.kind=adagrad", "train.optimizer.initial_sum=-1"},
       "key 'train.optimizer.initial_sum': got -1.0"},
      {{"train.optimizer.initial_sum=0.1"},
       "key 'train.optimizer.initial_sum': got 0.1, expected it not to be set"},
      {{"train.optimizer.fixed_after=3"},
       "key 'train.optimizer.fixed_after': got 3, expected it not to be set: 'momentum' has only"},
      {{"train.optimizer.kind=adam", "train.optimizer.correct_momentum=true"},
       "key 'train.optimizer.correct_momentum': got true, expected false: 'adam' keeps no velocity"},
      {{"train.optimizer.kind=nesterov", "train.optimizer.nesterov=false"},
       "key 'train.optimizer.nesterov': got false, expected true, or another kind"},
      {{"train.optimizer.nesterov=true", "train.optimizer.dampening=0.5"},
       "'dampening': got 0.5 with nesterov, expected 0"},
  };
  expect_refused(cases);
}

TEST(CheckJob, RefusesWhatAScheduleDoesNotTake) {
  const Case cases[] = {
      {{"train.optimizer.warmup=1"},
       "key 'train.optimizer.warmup': got 1.0, expected a fraction, at least 0 and below 1"},
      {{"train.optimizer.warmup=nan"}, "key 'train.optimizer.warmup': got nan"},
      {{"train.optimizer.warmup_start=2"},
       "key 'train.optimizer.warmup_start': got 2.0, expected a fraction"},
      {{"train.optimizer.final_share=-1"},
       "key 'train.optimizer.final_share': got -1.0, expected a fraction"},
      {{"train.optimizer.factor=0"}, "key 'train.optimizer.factor': got 0.0, expected above 0 and at most 1"},
      {{"train.optimizer.power=0"}, "key 'train.optimizer.power': got 0.0, expected above 0"},
      {{"train.optimizer.start_divisor=0.5"},
       "key 'train.optimizer.start_divisor': got 0.5, expected 1 or more"},
      {{"train.optimizer.milestones=0.5"},
       "key 'train.optimizer.milestones': got [0.5], expected none with schedule 'cosine'; set "
       "train.optimizer.schedule = \"step\""},
      {{"train.optimizer.schedule=step"},
       "key 'train.optimizer.milestones': got [], expected some for schedule 'step', like [0.5"},
      {{"train.optimizer.schedule=step", "train.optimizer.milestones=0.5,0.5"},
       "got [0.5, 0.5], expected ascending fractions"},
      {{"train.optimizer.schedule=step", "train.optimizer.milestones=30,60"},
       "got [30.0, 60.0], expected ascending fractions of the run"},
      {{"train.optimizer.schedule=step", "train.optimizer.milestones=nan"}, "expected ascending fractions"},
      {{"train.optimizer.reference_batch=-1"},
       "key 'train.optimizer.reference_batch': got -1, expected 0 or more"},
      {{"train.optimizer.max_batch_multiplier=0"},
       "key 'train.optimizer.max_batch_multiplier': got 0, expected between 1"},
  };
  expect_refused(cases);
}

TEST(CheckJob, RefusesModelsThatCannotBe) {
  const Case cases[] = {
      {{"model.options={width=64}"}, "'lenet' has no options, got 'width'; remove model.options"},
      {{"model.name=mnist-cnn", "model.options={drop=0.1}"},
       "'mnist-cnn' has no option 'drop'; expected one of: scale, dropout"},
      {{"model.name=mnist-cnn", "model.options={dropout='much'}"},
       "model.options: 'dropout' is \"much\", expected a number"},
      {{"model.layers=[{kind='dens'}]"}, "layer 0"},
      {{"model.layers=[{kind='dense', out=3}, {kind='conv2d', out=3}]"},
       "layer 1 (conv2d): 'window' is missing"},
      {{"model.layers=[{kind='dense', out=3, colour=1}]"}, "layer 0 (dense): unknown attribute 'colour'"},
      {{"model.layers=[3]"}, "layer 0: got number, expected a table with a string 'kind'"},
      {{"model.layers=[{kind='classifier'}]", "model.options={scale=1}"},
       "key 'model.options': got {\"scale\" = 1}, expected none beside model.layers"},
      {{"model.cut_at=fc2"},
       "key 'model.cut_at': got \"fc2\", expected an empty string without model.init_from"},
  };
  expect_refused(cases);
}

TEST(CheckJob, RefusesCountsThatDoNotFitTogether) {
  const Case cases[] = {
      {{"train.logical_shards=2", "parallel.workers=3"},
       "3 workers cannot share 2 logical shards: use --workers 2 or set train.logical_shards=3"},
      {{"train.logical_shards=8", "train.batch=7"},
       "a batch of 7 samples cannot be cut into 8 logical shards: set train.batch to 8 or more"},
      {{"parallel.workers=9", "train.batch=8"}, "cannot be cut into 9 logical shards"},
  };
  expect_refused(cases);
}

TEST(CheckJob, TakesChunksWhereAModelAxisMovesActivations) {
  const std::vector<std::string> trick{"parallel.mesh=data=1,model=2", "parallel.workers=2",
                                       "parallel.style=one-weird-trick"};
  const auto with = [&trick](const std::vector<std::string>& more) {
    std::vector<std::string> set = trick;
    set.insert(set.end(), more.begin(), more.end());
    return set;
  };
  for (const auto& more :
       std::vector<std::vector<std::string>>{{"parallel.fc_scheme=vertical"},
                                             {"parallel.fc_scheme=horizontal", "parallel.overlap_chunks=64"},
                                             {"parallel.style=tensor", "parallel.overlap_chunks=4"}})
    EXPECT_TRUE(check_with(with(more)).ok()) << check_with(with(more)).to_string();
  // Defaults take back what a file says, with or without the axis.
  const Status taken_back =
      check_with({"parallel.style=price", "parallel.fc_scheme=broadcast", "parallel.overlap_chunks=1"});
  EXPECT_TRUE(taken_back.ok()) << taken_back.to_string();
  const Case cases[] = {
      {{"parallel.style=tensor"}, "expected its default without a model axis"},
      {{"parallel.fc_scheme=vertical"}, "expected its default without a model axis"},
      {{"parallel.overlap_chunks=2"}, "expected its default without a model axis"},
      {with({"parallel.fc_scheme=diagonal"}), "expected one of: broadcast, vertical, horizontal"},
      {with({"parallel.overlap_chunks=0"}), "expected between 1 and 64"},
      {with({"parallel.overlap_chunks=65"}), "expected between 1 and 64"},
      {with({"parallel.style=tensor", "parallel.fc_scheme=horizontal"}),
       "expected broadcast, or parallel.style = one-weird-trick"},
      {with({"parallel.fc_scheme=vertical", "parallel.overlap_chunks=2"}),
       "expected 1 with parallel.fc_scheme = vertical"},
  };
  expect_refused(cases);
}

TEST(CheckJob, SaysWhereTheWrongValueWasGiven) {
  struct Given {
    const char *toml, *place;
  };
  const Given cases[] = {
      {"[train]\nepochs = 0\n", "a.toml:2:10: [job] key 'train.epochs'"},
      {"[model]\nname = 'alexnot'\n", "a.toml:2:8: [model] no model"},
      {"[model]\nname = 'mnist-cnn'\noptions = { drop = 1 }\n",
       "a.toml:3:11: [model] 'mnist-cnn' has no option"},
      {"[[model.layers]]\nkind = 'dens'\n", "a.toml:1:1: [model] layer 0"},
      {"[train.optimizer]\nkind = 'sgd'\nmomentum = 0.5\n",
       "a.toml:3:12: [job] key 'train.optimizer.momentum'"},
      {"[train.optimizer]\nmilestones = [0.5]\n", "a.toml:2:14: [job] key 'train.optimizer.milestones'"},
      {"[parallel]\nagreement = 'magic'\n", "a.toml:2:13: "},
      {"[data]\npartition = 'fair'\n", "a.toml:2:13: [data] partition"},
  };
  for (const Given& c : cases) {
    const Result<Job> job = parse_job(c.toml, "a.toml");
    ASSERT_TRUE(job.ok()) << job.status().to_string();
    const Status status = check_job(*job);
    EXPECT_TRUE(status.message().starts_with(c.place))
        << "got: " << status.message() << "\nexpected: " << c.place;
  }
  EXPECT_TRUE(check_with({"train.epochs=0"}).message().starts_with("--set: [job] key 'train.epochs'"));
  Job job;
  job.train.epochs = 0;
  EXPECT_TRUE(check_job(job).message().starts_with("[job] key 'train.epochs'"));
}

TEST(CheckJob, TakesEveryRowOfTheTablesWithItsDefaults) {
  for (const model::OptimizerRow& row : model::optimizer_table())
    EXPECT_TRUE(check_with({fmt::format("train.optimizer.kind={}", row.name)}).ok()) << row.name;
  for (const model::ZooRow& row : model::zoo())
    EXPECT_TRUE(check_with({fmt::format("model.name={}", row.name)}).ok()) << row.name;
  for (const model::ScheduleRow& row : model::schedule_table()) {
    std::vector<std::string> set{fmt::format("train.optimizer.schedule={}", row.name)};
    if (std::string_view(row.name) == "step") set.emplace_back("train.optimizer.milestones=0.5");
    EXPECT_TRUE(check_with(set).ok()) << row.name;
  }
}

// The job of a crash is one that no rule speaks against.
TEST(CheckJob, EndsWithAVerdictForExtremeNumbers) {
  constexpr std::int64_t kInts[] = {std::numeric_limits<std::int64_t>::min(), -1, 0,
                                    std::numeric_limits<std::int64_t>::max()};
  const double numbers[] = {-1, 0, 1e308, std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  for (const JobKey& key : job_keys()) {
    for (const std::int64_t v : kInts) {
      Job job;
      if (const auto* get = std::get_if<std::int64_t* (*)(Job&)>(&key.field)) *(*get)(job) = v;
      if (const auto* option = std::get_if<OptionField>(&key.field);
          value_kind(key) == "an integer" && option)
        options_of(job, option->family).set(option->spec->name, v);
      const Status status = check_job(job);
      EXPECT_TRUE(status.ok() || status.code() == Code::kInvalid) << key.path;
    }
    for (const double v : numbers) {
      Job job;
      if (const auto* get = std::get_if<double* (*)(Job&)>(&key.field)) *(*get)(job) = v;
      if (const auto* get = std::get_if<std::optional<double>* (*)(Job&)>(&key.field)) *(*get)(job) = v;
      if (const auto* option = std::get_if<OptionField>(&key.field); value_kind(key) == "a number" && option)
        options_of(job, option->family).set(option->spec->name, v);
      const Status status = check_job(job);
      EXPECT_TRUE(status.ok() || status.code() == Code::kInvalid) << key.path;
      const bool number = !std::holds_alternative<std::int64_t* (*)(Job&)>(key.field) &&
                          value_text(job, key) != value_text(Job(), key);
      EXPECT_TRUE(!number || std::isfinite(v) || !status.ok()) << key.path << " takes " << v;
    }
  }
}

}  // namespace
}  // namespace trireme::job
