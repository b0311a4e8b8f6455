#include "trireme/cli/usage.h"

#include <gtest/gtest.h>

#include "trireme/cli/command.h"

namespace trireme::cli {
namespace {

// A command line like ours: a command with a job, one with a required word, one with subcommands.
struct Commands {
  Options app{"", "trireme"};
  std::string job, run, first, second;
  std::vector<std::string> sets;
  int workers = 0;

  Commands() {
    app.require_subcommand();
    Options* train = app.add_subcommand("train", "");
    train->add_option("job", job, "Job file");
    train->add_option("--set", sets, "Keys");
    train->add_option("--workers", workers, "Workers");
    Options* eval = app.add_subcommand("eval", "");
    eval->add_option("run", run, "Folder of a run")->required();
    eval->add_option("--set", sets, "Keys");
    Options* checkpoint = app.add_subcommand("checkpoint", "");
    checkpoint->require_subcommand();
    Options* diff = checkpoint->add_subcommand("diff", "");
    diff->add_option("first", first, "A checkpoint")->required();
    diff->add_option("second", second, "Second checkpoint to compare")->required();
    app.add_subcommand("hidden", "")->group("");
  }

  // The first line of what is said; "": it parses.
  std::string said(const std::vector<std::string>& words) {
    const auto failure = app.parse(words);
    if (!failure) return "";
    const std::string message = explain_mistake(app, *failure, words);
    return message.substr(0, message.find('\n'));
  }
};

std::string said(const std::vector<std::string>& words) { return Commands().said(words); }

TEST(Usage, OptionsOfOtherTrainersAreAnsweredWithTheirKey) {
  EXPECT_EQ(said({"train", "--epochs", "3"}),
            "error: unknown option '--epochs'; set the job's key: --set train.epochs=3");
  EXPECT_EQ(said({"train", "--lr=0.1"}),
            "error: unknown option '--lr'; set the job's key: --set train.optimizer.lr=0.1");
  EXPECT_EQ(said({"train", "--batch-size", "64"}),
            "error: unknown option '--batch-size'; set the job's key: --set train.batch=64");
  EXPECT_EQ(said({"train", "--data", "x.csv"}),
            "error: unknown option '--data'; set the job's key: --set data.path=x.csv");
  EXPECT_EQ(said({"train", "--weight-decay", "--workers", "2"}),
            "error: unknown option '--weight-decay'; set the job's key: "
            "--set train.optimizer.weight_decay=VALUE");
  EXPECT_EQ(said({"train", "--num-workers", "4"}), "error: unknown option '--num-workers'; use --workers");
}

TEST(Usage, OnlyDataCanBeSetWhereATrainedModelIsUsed) {
  EXPECT_EQ(said({"eval", "r", "--epochs", "3"}), "error: unknown option '--epochs'");
  EXPECT_EQ(said({"eval", "r", "--data", "d"}),
            "error: unknown option '--data'; set the job's key: --set data.path=d");
}

TEST(Usage, MisspeltOptionsGetAProposalWhereOneIsNear) {
  EXPECT_EQ(said({"train", "--st", "train.steps=3"}), "error: unknown option '--st'; did you mean --set?");
  EXPECT_EQ(said({"train", "--wokers", "2"}), "error: unknown option '--wokers'; did you mean --workers?");
  EXPECT_EQ(said({"train", "--bogus"}), "error: unknown option '--bogus'");
}

TEST(Usage, WhatIsMissingIsNamedWithItsMeaning) {
  EXPECT_EQ(said({"eval"}), "error: trireme eval needs RUN: Folder of a run");
  EXPECT_EQ(said({"checkpoint", "diff", "a"}),
            "error: trireme checkpoint diff needs SECOND: Second checkpoint to compare");
  EXPECT_EQ(said({"checkpoint"}), "error: trireme checkpoint needs one of: diff");
  EXPECT_EQ(said({}), "error: trireme needs one of: train, eval, checkpoint");
}

TEST(Usage, WordsThatNothingTakesAreNamed) {
  EXPECT_EQ(said({"train", "a.toml", "b.toml"}), "error: unexpected argument 'b.toml'");
  EXPECT_EQ(said({"checkpoint", "nothing"}), "error: 'nothing' is not one of: diff");
  EXPECT_EQ(said({"checkpoint", "dif"}), "error: there is no 'trireme checkpoint dif'; did you mean diff?");
}

TEST(Usage, NumbersAreAskedForAsSuch) {
  EXPECT_EQ(said({"train", "--workers", "two"}), "error: --workers: got 'two', expected a number");
}

TEST(Usage, UnknownCommandsAreGuessed) {
  const Commands c;
  EXPECT_EQ(explain_unknown_command(c.app, "train"), "");
  EXPECT_EQ(explain_unknown_command(c.app, "hidden"), "");
  EXPECT_EQ(explain_unknown_command(c.app, "--help"), "");
  EXPECT_EQ(explain_unknown_command(c.app, "trian"),
            "error: unknown command 'trian'; did you mean train?\nSee 'trireme --help'.\n");
  EXPECT_EQ(explain_unknown_command(c.app, "x.toml"),
            "error: unknown command 'x.toml'; expected one of: train, eval, checkpoint\n"
            "To train a job file: trireme train x.toml\nSee 'trireme --help'.\n");
}

TEST(Usage, HelpIsAlsoACommand) {
  EXPECT_EQ(with_help_words({"help"}), (std::vector<std::string>{"--help"}));
  EXPECT_EQ(with_help_words({"help", "inspect", "op"}),
            (std::vector<std::string>{"inspect", "op", "--help"}));
  EXPECT_EQ(with_help_words({"train", "help"}), (std::vector<std::string>{"train", "help"}));
}

TEST(ShownMessages, HaveNoAreas) {
  EXPECT_EQ(without_areas("[data] x.csv: no rows"), "x.csv: no rows");
  EXPECT_EQ(without_areas("a.toml:3:1: [job] key 'x': [model] no layer"), "a.toml:3:1: key 'x': no layer");
  EXPECT_EQ(without_areas("[launch] the job failed:\n  rank 1: [comm] gone"),
            "the job failed:\n  rank 1: gone");
}

TEST(ShownMessages, KeepOtherBrackets) {
  for (const char* text : {"only keys of [data] can be set", "got [1, 2] here", "[op conv2d] width: 3",
                           "a: [b]", "[", "a: [", "x: [] y"})
    EXPECT_EQ(without_areas(text), text);
}

}  // namespace
}  // namespace trireme::cli
