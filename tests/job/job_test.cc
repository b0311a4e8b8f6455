// Jobs from text: TOML and --set. Out again: job_out_test.cc. What values make sense: job_check_test.cc.
#include "trireme/job/job.h"

#include <gtest/gtest.h>

#include "tests/job/any_job.h"
#include "trireme/job/job_options.h"
#include "trireme/model/optimizer_options.h"

namespace trireme::job {
namespace {

void expect_says(const Status& status, std::string_view fragment) {
  EXPECT_EQ(status.code(), Code::kInvalid) << fragment;
  EXPECT_NE(status.message().find(fragment), std::string::npos)
      << "got: " << status.message() << "\nexpected: " << fragment;
}

// ---- TOML
TEST(Job, ReadsEveryKindOfValueFromTomlAndKeepsDefaultsForTheRest) {
  const Result<Job> job = parse_job(R"(
name = "mine"
[model]
name = "mlp"
options = { width = 64, dropout = 0.5 }
freeze = ["conv1", "conv2"]
[data.augment]
shift = 2
flip = true
[train]
epochs = 7
target_accuracy = 1
optimizer = { lr = 1, momentum = 0.5, nesterov = true, milestones = [0.5, 0.75], no_decay = [] }
[parallel]
workers = 3
)",
                                    "job.toml");
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(job->name, "mine");
  EXPECT_EQ(job->model.name, "mlp");
  EXPECT_EQ(job->model.options, (Json{{"dropout", 0.5}, {"width", 64}}));
  EXPECT_EQ(job->model.freeze, (std::vector<std::string>{"conv1", "conv2"}));
  EXPECT_EQ(job->data.augment.shift, 2);
  EXPECT_TRUE(job->data.augment.flip);
  EXPECT_EQ(job->train.epochs, 7);
  EXPECT_EQ(job->train.target_accuracy, 1.0) << "an integer is a number";
  EXPECT_EQ(job->train.optimizer.lr, 1.0);
  EXPECT_EQ(job->train.optimizer.options.number(model::kMomentum), 0.5);
  EXPECT_TRUE(job->train.optimizer.options.flag(model::kNesterov));
  EXPECT_EQ(job->train.optimizer.milestones, (std::vector<double>{0.5, 0.75}));
  EXPECT_TRUE(job->train.optimizer.no_decay.empty());
  EXPECT_EQ(job->parallel.workers, 3);
  EXPECT_EQ(job->train.batch, Job().train.batch);
  EXPECT_EQ(job->train.optimizer.schedule, Job().train.optimizer.schedule);
  EXPECT_FALSE(job->train.optimizer.options.has("weight_decay")) << "not given is not set";
}

TEST(Job, LayersMayBeAListOrRepeatedTables) {
  const Result<Job> list =
      parse_job("[model]\nlayers = [{ kind = 'dense', out = 8 }, { kind = 'classifier' }]\n", "j");
  const Result<Job> tables =
      parse_job("[[model.layers]]\nkind = 'dense'\nout = 8\n[[model.layers]]\nkind = 'classifier'\n", "j");
  ASSERT_TRUE(list.ok()) << list.status().to_string();
  ASSERT_TRUE(tables.ok()) << tables.status().to_string();
  EXPECT_EQ(list->model.layers, (Json::array({{{"kind", "dense"}, {"out", 8}}, {{"kind", "classifier"}}})));
  EXPECT_EQ(to_toml(*list), to_toml(*tables));
}

TEST(Job, AnEmptyFileIsTheDefaultJob) {
  for (const char* text : {"", "\n", "# only a comment", "[train]\n[parallel]\n"}) {
    const Result<Job> job = parse_job(text, "job.toml");
    ASSERT_TRUE(job.ok()) << text;
    EXPECT_EQ(to_toml(*job), to_toml(Job()));
    EXPECT_TRUE(job->given_at.empty());
  }
}

TEST(Job, AnUnknownKeyIsRefusedWithItsPlaceAndTheNearestKnownOne) {
  struct Case {
    const char *toml, *said;
  };
  const Case cases[] = {
      {"name = 'x'\n[train]\n  epoch = 3\n",
       "a.toml:3:11: [job] unknown key 'train.epoch'; did you mean 'train.epochs'?"},
      {"[train.optimiser]\nlr = 1.0\n", "'train.optimiser.lr'; did you mean 'train.optimizer.lr'?"},
      {"[train]\nlr = 1.0\n", "a.toml:2:6: [job] unknown key 'train.lr'; did you mean 'train.optimizer.lr'?"},
      {"batch = 3\n", "a.toml:1:9: [job] unknown key 'batch'; did you mean 'train.batch'?"},
      {"[data.augment]\nflipp = true\n", "did you mean 'data.augment.flip'?"},
      {"[train.optimizer]\nwieght_decay = 0\n", "did you mean 'train.optimizer.weight_decay'?"},
      {"[Train]\nepochs = 1\n", "unknown key 'Train.epochs'; did you mean 'train.epochs'?"},
      {"'train.epochs' = 1\n[train]\nepoch = 1\n", "did you mean 'train.epochs'?"},
      {"train = 3\n",
       "a.toml:1:9: [job] 'train' is a table of keys, not a key; set one of them, like train.epochs"},
      {"[train]\noptimizer = 'adam'\n",
       "'train.optimizer' is a table of keys, not a key; set one of them, like "
       "train.optimizer.kind"},
  };
  for (const Case& c : cases) expect_says(parse_job(c.toml, "a.toml").status(), c.said);
  std::string long_key(100'000, 'x');
  long_key += " = 1";
  expect_says(parse_job(long_key, "a.toml").status(), "unknown key");
}

TEST(Job, AValueOfTheWrongTypeIsRefusedWithItsPlace) {
  struct Case {
    const char *toml, *said;
  };
  const Case cases[] = {
      {"[train]\nepochs = 2.5",
       "j:2:10: [job] key 'train.epochs': got a value of type floating-point, expected an integer"},
      {"[train]\nepochs = '2'", "got a value of type string, expected an integer"},
      {"[train]\nepochs = [2]", "got a value of type array, expected an integer"},
      {"[train]\nepochs = 1979-05-27", "got a value of type date, expected an integer"},
      {"[train]\ntarget_accuracy = true", "got a value of type boolean, expected a number"},
      {"[train.optimizer]\nlr = '0.1'",
       "j:2:6: [job] key 'train.optimizer.lr': got a value of type string, "
       "expected a number"},
      {"[train.optimizer]\nnesterov = 1", "got a value of type integer, expected true or false"},
      {"[train]\nevents = 'yes'", "'train.events': got a value of type string, expected true or false"},
      {"[model]\nname = 3", "'model.name': got a value of type integer, expected a string"},
      {"[model]\nfreeze = 'conv1'", "'model.freeze': got a value of type string, expected a list of strings"},
      {"[model]\nfreeze = [1]", "'model.freeze': got a value of type array, expected a list of strings"},
      {"[train.optimizer]\nmilestones = 0.5",
       "got a value of type floating-point, expected a list of numbers"},
      {"[train.optimizer]\nmilestones = [0.5, '1']", "got a value of type array, expected a list of numbers"},
      {"[model]\noptions = 3", "'model.options': got a value of type integer, expected a table"},
      {"[model]\noptions = [3]", "'model.options': got a value of type array, expected a table"},
      {"[model]\noptions = { a = 1979-05-27 }",
       "'model.options': got a date, a time or a number that is not finite inside, expected a table"},
      {"[model]\nlayers = [{ rate = inf }]",
       "'model.layers': got a date, a time or a number that is not finite inside"},
      {"[model]\nlayers = { kind = 'x' }",
       "'model.layers': got a value of type table, expected a list of tables"},
  };
  for (const Case& c : cases) expect_says(parse_job(c.toml, "j").status(), c.said);
}

TEST(Job, BrokenTomlIsRefusedWithItsPlace) {
  struct Case {
    const char *toml, *place;
  };
  const Case cases[] = {
      {"name = 'x'\n[train\n", "job.toml:2:"}, {"name = 'x'\nname = 'y'\n", "job.toml:2:"},
      {"[train]\nepochs = \n", "job.toml:2:"}, {"[train]\nepochs = 99999999999999999999\n", "job.toml:2:"},
      {"name = \"a\n", "job.toml:1:"},         {"name = \"\xff\"\n", "job.toml:1:"}};
  for (const Case& c : cases) {
    const Status status = parse_job(c.toml, "job.toml").status();
    expect_says(status, c.place);
    expect_says(status, "[job] not valid TOML");
  }
}

TEST(Job, KnowsWhereEveryKeyWasGiven) {
  Result<Job> job =
      parse_job("[train]\nepochs = 7\n  batch = 8\n[[model.layers]]\nkind='classifier'\n", "dir/j.toml");
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(job->given_at["train.epochs"], "dir/j.toml:2:10");
  EXPECT_EQ(job->given_at["train.batch"], "dir/j.toml:3:11");
  EXPECT_EQ(job->given_at["model.layers"], "dir/j.toml:4:1");
  EXPECT_EQ(job->given_at.size(), 3U);
  ASSERT_TRUE(set_job_key(*job, "train.batch=16").ok());
  EXPECT_EQ(job->given_at["train.batch"], "--set");
  EXPECT_EQ(to_toml(*job).find("j.toml"), std::string::npos);
}

// ---- --set
TEST(SetJobKey, AppliesEveryKindOfValue) {
  Job job;
  for (const char* assignment : {"train.epochs=5", "train.optimizer.lr=1e-3", "train.optimizer.nesterov=true",
                                 "train.events=false", "model.name=linear", "name=a=b", "data.seed=-1",
                                 "train.target_accuracy=1", "model.options={width=64, dropout = 0.5}",
                                 "model.layers=[{kind='dense', out=3}, {kind='classifier'}]",
                                 "train.optimizer.milestones=0.5,0.75", "model.freeze=conv1,conv2"})
    EXPECT_TRUE(set_job_key(job, assignment).ok()) << set_job_key(job, assignment).to_string();
  EXPECT_EQ(job.train.epochs, 5);
  EXPECT_EQ(job.train.optimizer.lr, 1e-3);
  EXPECT_TRUE(job.train.optimizer.options.flag(model::kNesterov));
  EXPECT_FALSE(job.options.flag(kEvents));
  EXPECT_EQ(job.model.name, "linear");
  EXPECT_EQ(job.name, "a=b");
  EXPECT_EQ(job.data.seed, -1);
  EXPECT_EQ(job.train.target_accuracy, 1.0);
  EXPECT_EQ(job.model.options, (Json{{"dropout", 0.5}, {"width", 64}}));
  EXPECT_EQ(job.model.layers.size(), 2U);
  EXPECT_EQ(job.train.optimizer.milestones, (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(job.model.freeze, (std::vector<std::string>{"conv1", "conv2"}));
  ASSERT_TRUE(set_job_key(job, "train.optimizer.nesterov=false").ok());
  EXPECT_EQ(*job.train.optimizer.options.find("nesterov"), OptionValue(false));
}

TEST(SetJobKey, ListsNeedNoBracketsAndMayBeEmpty) {
  struct Numbers {
    const char* text;
    std::vector<double> want;
  };
  for (const Numbers& c :
       {Numbers{"0.5", {0.5}}, Numbers{"[0.5]", {0.5}}, Numbers{"0.25,0.5", {0.25, 0.5}},
        Numbers{"[0.25, 0.5]", {0.25, 0.5}}, Numbers{"1, 2", {1, 2}}, Numbers{"", {}}, Numbers{"[]", {}}}) {
    Job job;
    job.train.optimizer.milestones = {9};
    EXPECT_TRUE(set_job_key(job, std::string("train.optimizer.milestones=") + c.text).ok()) << c.text;
    EXPECT_EQ(job.train.optimizer.milestones, c.want) << c.text;
  }
  struct Texts {
    const char* text;
    std::vector<std::string> want;
  };
  for (const Texts& c :
       {Texts{"conv1", {"conv1"}}, Texts{"a,b", {"a", "b"}}, Texts{"['a', \"b\"]", {"a", "b"}}, Texts{"", {}},
        Texts{"[]", {}}, Texts{"it's,\"", {"it's", "\""}}}) {
    Job job;
    job.model.freeze = {"x"};
    EXPECT_TRUE(set_job_key(job, std::string("model.freeze=") + c.text).ok()) << c.text;
    EXPECT_EQ(job.model.freeze, c.want) << c.text;
  }
}

TEST(SetJobKey, TextsAreTakenAsTheyAre) {
  for (const char* text :
       {"plain", "", "true", "3", "with blank", "a=b", "\"quoted\"", "[x]", "\\", "tab\t"}) {
    Job job;
    ASSERT_TRUE(set_job_key(job, std::string("data.path=") + text).ok()) << text;
    EXPECT_EQ(job.data.path, text);
  }
}

TEST(SetJobKey, RefusesWhatItCannotReadAndLeavesTheJobAlone) {
  struct Case {
    const char *set, *said;
  };
  const Case cases[] = {
      {"train.epochs", "got 'train.epochs', expected key=value"},
      {"", "expected key=value"},
      {"=5", "unknown key ''"},
      {"train.epoch=5", "unknown key 'train.epoch'; did you mean 'train.epochs'?"},
      {"epochs=5", "did you mean 'train.epochs'?"},
      {"train=5", "'train' is a table of keys"},
      {"train.epochs=five", "key 'train.epochs': got 'five', expected an integer"},
      {"train.epochs=5x", "got '5x', expected an integer"},
      {"train.epochs=5.0", "got '5.0', expected an integer"},
      {"train.epochs=", "got '', expected an integer"},
      {"train.epochs=true", "got 'true', expected an integer"},
      {"train.epochs=99999999999999999999", "expected an integer"},
      {"train.epochs=1\ntrain.batch=2", "expected an integer"},
      {"train.optimizer.lr=0,1", "got '0,1', expected a number"},
      {"train.optimizer.lr=true", "got 'true', expected a number"},
      {"train.optimizer.lr=", "got '', expected a number"},
      {"train.target_accuracy='1'", "got ''1'', expected a number"},
      {"train.optimizer.nesterov=yes", "got 'yes', expected true or false"},
      {"train.optimizer.nesterov=1", "got '1', expected true or false"},
      {"train.events=True", "got 'True', expected true or false"},
      {"train.optimizer.milestones=0.5,x", "got '0.5,x', expected a list of numbers"},
      {"train.optimizer.milestones=[0.5", "got '[0.5', expected a list of numbers"},
      {"train.optimizer.milestones=['a']", "expected a list of numbers"},
      {"model.freeze=[1]", "got '[1]', expected a list of strings"},
      {"model.options=width=64", "got 'width=64', expected a table"},
      {"model.options={width=64", "expected a table"},
      {"model.options=[1]", "expected a table"},
      {"model.layers={kind='dense'}", "expected a list of tables"},
  };
  for (const Case& c : cases) {
    Job job;
    expect_says(set_job_key(job, c.set), c.said);
    EXPECT_EQ(to_toml(job), to_toml(Job())) << c.set;
    EXPECT_TRUE(job.given_at.empty()) << c.set;
  }
}

TEST(SetJobKey, TakesWhatValueTextGives) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Job job = any_job(seed);
    Job copy;
    for (const JobKey& key : job_keys()) {
      std::string value = value_text(job, key);
      if (const auto* text = std::get_if<std::string* (*)(Job&)>(&key.field))
        value = *(*text)(const_cast<Job&>(job));  // texts are taken as they are
      else if (const auto* option = std::get_if<OptionField>(&key.field);
               option != nullptr && value_kind(key) == "a string" && !value.empty())
        value = options_of(job, option->family).text(*option->spec);
      else if (value.empty())
        continue;
      const Status status = set_job_key(copy, fmt::format("{}={}", key.path, value));
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.to_string();
    }
    EXPECT_EQ(to_toml(copy), to_toml(job)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trireme::job
