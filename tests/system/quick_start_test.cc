// docs/quick_start.md: its files are written and its commands run in order, each with few samples and steps.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

std::filesystem::path root() {
  const char* dir = std::getenv("TRIREME_SOURCE_DIR");
  return dir != nullptr ? dir : ".";
}

std::string page() {
  std::ifstream in(root() / "docs/quick_start.md");
  return {std::istreambuf_iterator<char>(in), {}};
}

// What stands between ```<language> and ```.
std::string block(const std::string& text, const std::string& language) {
  const std::string opening = "```" + language + "\n";
  const std::size_t begin = text.find(opening);
  if (begin == std::string::npos) return "";
  const std::size_t from = begin + opening.size();
  return text.substr(from, text.find("```", from) - from);
}

// Arguments after "./run" of every indented line that begins with it.
std::vector<std::string> commands(const std::string& text) {
  const std::string opening = "    ./run ";
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(opening)) found.push_back(line.substr(opening.size()));
  return found;
}

TEST(QuickStart, EveryCommandWorksInTheOrderOfThePage) {
  const std::string text = page();
  const std::vector<std::string> all = commands(text);
  ASSERT_GE(all.size(), 9U);
  const Workspace w;
  w.write("my.toml", block(text, "toml"));
  w.write("flowers.csv", block(text, "csv"));
  std::filesystem::create_directory_symlink(std::filesystem::absolute(root() / "recipes"), w / "recipes");
  for (const std::string& command : all) {
    const bool trains = command.starts_with("train");
    const std::string shorter =
        trains ? " --quiet --set train.steps=2 data.limit_train=60 data.limit_test=20" : "";
    // By a shell, which takes the quotes off as it does for users.
    const Ran ran = w.run_program({"/bin/sh", "-c", "exec \"$0\" " + command + shorter, binary_path()});
    EXPECT_EQ(ran.code, 0) << command << "\n" << ran.err;
    EXPECT_NE(ran.out, "") << command;
  }
  for (const char* run : {"digits-1", "mine-1", "second-seed", "autoencoder-1", "flowers-1"})
    EXPECT_TRUE(w.json(std::string("runs/") + run + "/summary.json").value("finished", false)) << run;
}

TEST(QuickStart, TheFilesThatItNamesExist) {
  const Workspace w;
  ASSERT_EQ(
      w.run({"train", "--quiet", "--set", "train.steps=2", "data.limit_train=60", "data.limit_test=20"}).code,
      0);
  for (const char* name : {"summary.json", "metrics.jsonl", "job.toml"})
    EXPECT_NE(w.read(std::string("runs/digits-1/") + name), "") << name;
  bool events = false;
  for (const auto& entry : std::filesystem::directory_iterator(w / "runs/digits-1"))
    events = events || entry.path().filename().string().starts_with("events.out.tfevents");
  EXPECT_TRUE(events);
  EXPECT_FALSE(std::filesystem::is_empty(w / "runs/digits-1/checkpoints"));
}

TEST(QuickStart, TheMistakeThatItShowsIsToldLikeThat) {
  const std::string text = page();
  const std::size_t begin = text.find("`my.toml:") + 1;
  ASSERT_NE(begin, std::string::npos + 1);
  const std::string said = text.substr(begin, text.find('`', begin) - begin);
  const Workspace w;
  std::string toml = block(text, "toml");
  const std::size_t at = toml.find("epochs = ");
  ASSERT_NE(at, std::string::npos);
  w.write("my.toml", toml.replace(at, 9, "epoch = "));
  const Ran ran = w.run({"train", "my.toml"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find(said), std::string::npos) << ran.err << "\nthe page says: " << said;
}

}  // namespace
}  // namespace trireme::system_test
