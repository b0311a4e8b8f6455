// The pages and tables that `inspect` makes, without the binary; tests/system/inspect_test.cc runs it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "trireme/cli/inspect/parts.h"

namespace trireme::cli {
namespace {

std::string read_source(const std::string& path) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  TR_CHECK(root != nullptr, "TRIREME_SOURCE_DIR is not set");
  std::ifstream file(std::string(root) + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(JobPage, IsWhatTheProgramPrints) {
  const std::string written = read_source("docs/job.md"), made = job_page();
  if (written == made) return;
  std::istringstream a(written), b(made);
  std::string in_file, now;
  for (int line = 1; std::getline(b, now); ++line) {
    std::getline(a, in_file);
    if (in_file == now && a) continue;
    FAIL() << "docs/job.md:" << line << " is\n  " << in_file << "\nand should be\n  " << now
           << "\nthe tables of keys changed: run `trireme inspect job --markdown > docs/job.md`";
  }
  FAIL() << "docs/job.md has more lines than the program prints: run `trireme inspect job --markdown > "
            "docs/job.md`";
}

TEST(JobPage, HasEveryKeyOptimiserScheduleLayerAndKindOfData) {
  const std::string page = job_page();
  for (const job::JobKey& key : job::job_keys())
    EXPECT_NE(page.find(fmt::format("\n| `{}` | {} |", key.path, job::value_kind(key))), std::string::npos)
        << key.path;
  for (const Json& rows : {list_optimizers(), list_schedules(), list_layers(), list_data(), list_models()})
    for (const Json& row : rows)
      EXPECT_NE(page.find("\n| `" + row.value("name", "") + "` | "), std::string::npos) << row.dump();
  EXPECT_NE(page.find("| `train.batch` | an integer | `128` | yes |"), std::string::npos);
  EXPECT_NE(page.find("| `train.optimizer.lr` | a number | not set | yes |"), std::string::npos);
  EXPECT_NE(page.find("| `parallel.workers` | an integer | `1` | no |"), std::string::npos);
}

TEST(JobPage, EveryTableOfKeysIsIntroduced) {
  std::istringstream page(job_page());
  std::string last, line;
  while (std::getline(page, line)) {
    if (last.starts_with("## ")) {
      EXPECT_GT(line.size(), 20U) << last;
    }
    last = line;
  }
}

TEST(JobPage, RowsHaveAsManyCellsAsTheirHeads) {
  std::istringstream page(job_page());
  std::string line;
  std::size_t cells = 0;
  const auto bars = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < text.size(); ++i) count += text[i] == '|' && (i == 0 || text[i - 1] != '\\');
    return count;
  };
  for (std::string last; std::getline(page, line); last = line) {
    if (!line.starts_with("|")) continue;
    if (!last.starts_with("|")) cells = bars(line);
    EXPECT_EQ(bars(line), cells) << line;
  }
}

TEST(InspectTables, EveryRowHasANameAndADoc) {
  for (const Json& rows :
       {list_models(), list_optimizers(), list_schedules(), list_layers(), list_data(), list_job_keys()}) {
    std::set<std::string> names;
    for (const Json& row : rows) {
      EXPECT_TRUE(names.insert(row.value("name", "")).second) << row.dump();
      EXPECT_GT(row.value("doc", "").size(), 3U) << row.dump();
    }
  }
}

TEST(InspectTables, ModelsHavePublishedParametersAndOptimisersTheirAttributes) {
  std::set<std::string> seen;
  for (const Json& row : list_models()) {
    EXPECT_TRUE(row["parameters"].is_number_integer()) << row.dump();
    if (row["name"] == "resnet50") {
      EXPECT_EQ(row["parameters"], 25'557'032);
    }
    if (row["name"] == "mnist-cnn") {
      EXPECT_EQ(row["options"][0]["name"], "scale");
    }
    seen.insert(row["name"]);
  }
  EXPECT_TRUE(seen.contains("resnet50") && seen.contains("mnist-cnn"));
  for (const Json& row : list_optimizers()) {
    if (row["name"] == "adam") {
      EXPECT_EQ(row["states"], Json::array({"moment1", "moment2", "max_moment2"}));
      EXPECT_EQ(row["attrs"][0]["name"], "beta1");
      EXPECT_EQ(row["attrs"][0]["default"], 0.9);
    }
    for (const Json& a : row["attrs"])
      if (row["name"] == "nesterov") {
        EXPECT_NE(a["name"], "nesterov") << "is fixed";
      }
  }
}

// Names that an optimiser's op has are keys of the job, so that the page may call them so.
TEST(InspectTables, AttributesOfOptimisersAreKeysOfAJob) {
  std::set<std::string> keys;
  for (const job::JobKey& key : job::job_keys()) keys.emplace(key.path);
  for (const Json& row : list_optimizers())
    for (const Json& a : row["attrs"])
      EXPECT_TRUE(keys.contains("train.optimizer." + a.value("name", ""))) << row["name"] << " " << a["name"];
}

TEST(NearestNames, ComeInOrderAndFew) {
  const std::string_view names[] = {"resnet18", "resnet50", "vgg16", "lenet", "lenet5"};
  EXPECT_EQ(nearest_names("resnet51", names).front(), "resnet50");
  EXPECT_EQ(nearest_names("lent", names).front(), "lenet");
  EXPECT_EQ(nearest_names("x", names), std::vector<std::string>());
  EXPECT_EQ(nearest_names("nope", names), std::vector<std::string>()) << "another word, not a misspelling";
  EXPECT_LE(nearest_names(std::string(100000, 'x'), names).size(), 3U);
  EXPECT_EQ(nearest_names("resnet", names), (std::vector<std::string>{"resnet18", "resnet50"}));
}

TEST(LoadModel, TakesNamesOfTheZooFilesAndTheBuiltInJob) {
  InspectSource args;
  EXPECT_EQ(load_inspected(args)->input.input.sample_shape, (Shape{1, 28, 28}));
  args.source.path = "gpt2-124m";
  EXPECT_EQ(load_inspected(args)->input.input.sample_shape, Shape{1024});
  EXPECT_EQ(load_inspected(args)->input.input.num_classes, 50257);
  args.source.path = "resnet18";
  args.source.sets = {"data.kind=cifar"};
  args.batch = 6;
  const auto cifar = load_inspected(args);
  ASSERT_TRUE(cifar.ok());
  EXPECT_EQ(cifar->input.input.sample_shape, (Shape{3, 32, 32}));
  EXPECT_EQ(cifar->job.train.batch, 6);
  args.source.path = "./missing.toml";
  EXPECT_EQ(load_inspected(args).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::cli
