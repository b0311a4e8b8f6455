// Every way for replicas to agree, with real processes: over each transport workers that see some classes
// only come to one model that knows all, runs are interrupted and go on, and a lost server is named.
#include "trireme/agree/agree.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using Words = std::vector<std::string>;

Words train(const std::string& rule, const Words& sets, const Words& more = {}) {
  Words args{"train", "--run-dir", "run", "--set", "model.name=mlp", "parallel.agreement=" + rule};
  args.insert(args.end(), sets.begin(), sets.end());
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Workers meet at evaluations. Between meetings each takes equally many steps, and where cores are fewer than
// workers some are far ahead for a while: meetings are often, so that none pulls the model to its own classes
// for long, and the rate falls to zero at the end.
Words by_class(const std::string& rule, const std::string& transport) {
  Words sets{"data.partition=by-class",
             "data.limit_train=4000",
             "data.limit_test=300",
             "train.batch=128",
             "train.steps=300",
             "train.eval_steps=10",
             "train.events=false",
             "train.checkpoint_steps=300",
             "train.optimizer.kind=sgd",
             "train.optimizer.lr=0.3",
             "parallel.transport=" + transport};
  const agree::AgreementRow* row = *agree::find_agreement(rule);
  if (find_option(row->options, "period") != nullptr) sets.emplace_back("parallel.period=1");
  // Not for easgd: there the centre moves by the sum of all pulls, and diverges from 2 / workers on.
  if (rule == "easgd-async") sets.emplace_back("parallel.elasticity=0.5");
  // Updates of peers arrive in bursts where cores are busy: at twice this rate one run in a hundred ends far
  // off.
  if (rule == "ssp-peer") sets.emplace_back("train.optimizer.lr=0.15");
  return train(rule, sets, {"--quiet", "--workers", "4"});
}

struct Way {
  std::string rule, transport;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.rule << " over " << way.transport; }

class ByClass : public ::testing::TestWithParam<Way> {};

TEST_P(ByClass, TheAgreedModelKnowsWhatEachWorkerHasSeen) {
  const Way& way = GetParam();
  const Workspace w;
  const Ran ran = w.run(by_class(way.rule, way.transport));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json summary = w.json("run/summary.json");
  EXPECT_EQ(summary.value("agreement", ""), way.rule);
  EXPECT_EQ(summary.value("transport", ""), way.transport);
  EXPECT_TRUE(summary.value("finished", false));
  const double accuracy = summary.value("test_accuracy", -1.0);
  if (way.rule == "none")
    EXPECT_LT(accuracy, 0.65) << "a control that knows all classes controls nothing";
  else
    EXPECT_GE(accuracy, 0.9) << summary.dump(1);
}

std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (const agree::AgreementRow& row : agree::agreement_table())
    for (const char* transport : {"shm", "tcp"})
      if (!row.shares_weights || std::string_view(transport) == "shm") ways.push_back({row.name, transport});
  return ways;
}

INSTANTIATE_TEST_SUITE_P(EveryRule, ByClass, ::testing::ValuesIn(all_ways()), [](const auto& info) {
  std::string name = info.param.rule + "_" + info.param.transport;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Agreements, TheListedRulesAreTheOnesTriedHere) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "agreements", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Result<Json> listed = parse_json(ran.out, "inspect");
  ASSERT_TRUE(listed.ok()) << listed.status().to_string();
  Words names, tried;
  for (const Json& row : *listed) names.push_back(row.value("name", ""));
  for (const Way& way : all_ways())
    if (way.transport == "shm") tried.push_back(way.rule);
  EXPECT_EQ(names, tried);
}

TEST(Agreements, HogwildIsRefusedOverTcpSinceItsWeightsAreInSharedMemory) {
  const Workspace w;
  expect_refused(w, {{by_class("hogwild", "tcp"), 2,
                      "agreement 'hogwild' changes one set of weights in shared memory: got transport 'tcp', "
                      "expected shm or inproc"}});
}

// Long enough that what happens at the first checkpoint finds most of the run ahead of it.
constexpr int kSteps = 600;
constexpr const char* kFirstCheckpoint = "run/checkpoints/step-000000010/manifest.json";

Words long_train(const std::string& rule, const Words& more) {
  return train(rule,
               {"train.batch=48", "train.steps=" + std::to_string(kSteps), "train.checkpoint_steps=10",
                "train.eval_steps=100", "train.events=false", "data.limit_train=1200", "data.limit_test=100",
                "train.optimizer.lr=0.03"},
               more);
}

void expect_finished(const Workspace& w) {
  const Json summary = w.json("run/summary.json");
  EXPECT_TRUE(summary.value("finished", false));
  EXPECT_EQ(summary.value("steps", 0), kSteps);
}

TEST(Agreements, ALostServerIsNamedAndTheSameCommandGoesOn) {
  const Workspace w;
  const Words args = long_train("downpour", {"--quiet", "--workers", "2", "--servers", "1"});
  int killed = 0;
  const Ran stopped = w.run_until_file(args, kFirstCheckpoint, [&](runtime::Process& launcher) {
    killed = pid_of_rank(launcher.pid(), 2);
    if (killed > 0) kill(killed, SIGKILL);
  });
  ASSERT_GT(killed, 0);
  EXPECT_EQ(stopped.code, 1) << stopped.err;
  // Rank 0 may have been writing a checkpoint, and says so first.
  EXPECT_NE(stopped.err.find("1: server 0 (rank 2) was lost in "), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("server 0 (rank 2): died by signal 9"), std::string::npos) << stopped.err;
  EXPECT_NE(stopped.err.find("resumes from the last checkpoint"), std::string::npos) << stopped.err;
  const Ran resumed = w.run(args);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_finished(w);
}

class InterruptedRule : public ::testing::TestWithParam<const char*> {};

TEST_P(InterruptedRule, SavesAndStopsAndTheSameCommandGoesOn) {
  const Workspace w;
  const Words args = long_train(GetParam(), {"--quiet", "--workers", "3"});
  const Ran stopped = w.run_until_file(args, kFirstCheckpoint, [](runtime::Process& launcher) {
    (void)launcher.signal(runtime::ProcessSignal::kInterrupt);
  });
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_NE(stopped.out.find("The same command resumes"), std::string::npos) << stopped.out;
  const int steps = w.json("run/summary.json").value("steps", kSteps);
  EXPECT_LT(steps, kSteps);
  EXPECT_FALSE(w.read(fmt::format("run/checkpoints/step-{:09}/manifest.json", steps)).empty()) << steps;
  const Ran resumed = w.run(args);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_finished(w);
}

INSTANTIATE_TEST_SUITE_P(Rules, InterruptedRule, ::testing::Values("averaging", "ssp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace trireme::system_test
