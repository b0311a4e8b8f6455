// `trireme inspect` as a user calls it: pieces of its text, its JSON, and mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/system/binary.h"
#include "trireme/graph/serialize.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;

Ran inspect(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "inspect");
  const Workspace w;
  return w.run(arguments);
}

Json inspect_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Ran ran = inspect(std::move(arguments));
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Result<Json> json = parse_json(ran.out, "standard output");
  EXPECT_TRUE(json.ok()) << ran.out;
  return json.ok() ? *json : Json();
}

TEST(Inspect, AModelIsShownByLayersWithTotalsAndMemory) {
  const Ran ran = inspect({"model", "lenet", "--batch", "64", "--memory", "512MiB"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              HasSubstr("lenet, batch 64; samples [1, 28, 28] (as published for lenet), 10 classes"));
  EXPECT_THAT(ran.out, HasSubstr("\nconv2         f32[64, 32, 14, 14]        12,832"));
  EXPECT_THAT(ran.out, HasSubstr("\nparameters  215,370\n"));
  EXPECT_THAT(ran.out, HasSubstr("average parallelism"));
  EXPECT_THAT(ran.out, HasSubstr("\nshares      convolution 91.2 %, fully connected 8.0 %"));
  EXPECT_THAT(ran.out, HasSubstr("\n  total "));
  EXPECT_THAT(ran.out, HasSubstr("In 512.0 MiB the largest batch is "));
}

TEST(Inspect, AModelAsJsonAddsUp) {
  const Json m = inspect_json(
      {"model", "mnist-mlp", "--batch", "32", "--set", "parallel.workers=2", "--memory", "64MiB"});
  EXPECT_EQ(m["parameters"], 669'706);
  EXPECT_EQ(m["memory"]["shard_batch"], 16);
  std::int64_t bytes = 0, parameters = 0;
  for (const Json& part : m["memory"]["parts"]) bytes += part["bytes"].get<std::int64_t>();
  for (const Json& layer : m["layers"]) parameters += layer["parameters"].get<std::int64_t>();
  EXPECT_EQ(m["memory"]["total_bytes"], bytes);
  EXPECT_EQ(m["parameters"], parameters);
  EXPECT_GT(m["memory"]["largest_batch"], 32);
  EXPECT_GT(m["shares"]["fully connected"], 0.99);
  EXPECT_EQ(m["average_parallelism"].get<double>(), m["work"].get<double>() / m["depth"].get<double>());
}

TEST(Inspect, AJobFileIsReadAndItsDataIsNot) {
  const Workspace w;
  w.write("job.toml",
          "[data]\nkind = \"idx\"\npath = \"/nowhere\"\n[[model.layers]]\nkind = \"conv2d\"\nout = 4\nwindow "
          "= 3\n"
          "[[model.layers]]\nkind = \"classifier\"\n");
  const Ran unknown = w.run({"inspect", "model", "job.toml"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("say it: --shape 3x64x64 --classes 10"));
  const Ran ran = w.run({"inspect", "model", "job.toml", "--shape", "1x8x8", "--classes", "3", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ((*parse_json(ran.out, "out"))["parameters"], 4 * 9 + 4 + 4 * 36 * 3 + 3);
}

TEST(Inspect, GraphsComeAsTextJsonDotAndCompiled) {
  const Ran text = inspect({"graph", "linear", "--batch", "3"});
  EXPECT_THAT(text.out, HasSubstr("matmul(%2, %3) {"));
  EXPECT_THAT(text.out, HasSubstr("output \"grad:fc/weight\" = "));
  const Ran eval = inspect({"graph", "linear", "--batch", "3", "--eval"});
  EXPECT_THAT(eval.out, HasSubstr("output \"logits\" = "));
  const Ran update = inspect({"graph", "linear", "--update", "--set", "train.optimizer.kind=adam"});
  EXPECT_THAT(update.out, HasSubstr("apply_adam("));
  const Ran dot = inspect({"graph", "linear", "--dot"});
  EXPECT_THAT(dot.out, HasSubstr("digraph "));
  const Ran compiled = inspect({"graph", "linear", "--compiled", "--threads", "1"});
  EXPECT_THAT(compiled.out, HasSubstr("strand 0: "));
  EXPECT_THAT(compiled.out, HasSubstr("\nworkspace "));
  const Ran json = inspect({"graph", "linear", "--batch", "3", "--json"});
  const auto graph = graph::parse_graph_json(json.out);
  ASSERT_TRUE(graph.ok()) << graph.status().to_string();
  EXPECT_EQ(graph->to_text(), text.out);
}

TEST(Inspect, PassesChangeTheGraphThatIsShown) {
  const Ran ran = inspect({"graph", "mlp", "--batch", "3", "--passes", "dead_code,fuse_epilogues"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("matmul_bias_act("));
  const Json passes = inspect_json({"graph", "--list-passes"});
  EXPECT_GE(passes.size(), 5U);
}

TEST(Inspect, ASchedulesCurveIsDrawn) {
  const Ran ran = inspect({"schedules", "--plot", "constant", "--set", "train.optimizer.warmup=0"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("0.1 |*************************************************************\n"));
  const Json curve = inspect_json({"schedules", "--plot", "polynomial", "--set", "train.optimizer.warmup=0"});
  EXPECT_DOUBLE_EQ(curve["lr"][0], 0.1);
  EXPECT_DOUBLE_EQ(curve["lr"][30], 0.05);
  EXPECT_EQ(curve["lr"].size(), 61U);
}

TEST(Inspect, EveryTableIsAlsoJson) {
  for (const char* topic :
       {"ops", "models", "layers", "optimizers", "schedules", "data", "agreements", "collectives", "job"}) {
    const Json rows = inspect_json({topic});
    ASSERT_TRUE(rows.is_array() && !rows.empty()) << topic;
    EXPECT_TRUE(rows[0].contains("name") && rows[0].contains("doc")) << topic;
    const Ran text = inspect({topic});
    EXPECT_THAT(text.out, HasSubstr(rows[0]["name"].get<std::string>())) << topic;
  }
}

// Words of a line of the page, up to a comment or a pipe; recipes are those of the source.
std::vector<std::string> words_of(const std::string& line, const std::string& root) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word && word != "#" && word != "|";)
    words.push_back(word.starts_with("recipes/") ? root + "/" + word : word);
  return words;
}

TEST(Inspect, EveryCommandOfTheHowToWorks) {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  std::ifstream page(std::string(root) + "/docs/how_to_inspect.md");
  int commands = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("    trireme inspect ")) continue;
    std::vector<std::string> words = words_of(line, root);
    words.erase(words.begin());  // trireme
    const Workspace w;
    const Ran ran = w.run(words);
    EXPECT_EQ(ran.code, 0) << line << "\n" << ran.err;
    EXPECT_NE(ran.out, "") << line;
    ++commands;
  }
  EXPECT_GT(commands, 10);
}

struct Mistake {
  std::vector<std::string> arguments;
  const char* says;
};

TEST(Inspect, MistakesAreExplained) {
  const Mistake mistakes[] = {
      {{"model", "resnet51"}, "did you mean resnet50"},
      {{"model", "missing.toml"}, "missing.toml"},
      {{"model", "lenet", "--set", "model.nam=x"}, "did you mean 'model.name'"},
      {{"model", "lenet", "--set", "model.name=lennet"}, "no model is called 'lennet'"},
      {{"model", "lenet", "--set", "model.options={width=3}"}, "'lenet' has no options, got 'width'"},
      {{"model", "lenet", "--shape", "1xx"}, "shape: got '1xx'"},
      {{"model", "lenet", "--shape", "1x1x1"}, "too small for 'lenet'"},
      {{"model", "lenet", "--classes", "0"}, "--classes"},
      {{"model", "lenet", "--batch", "0"}, "--batch"},
      {{"model", "lenet", "--memory", "much"}, "--memory: got 'much', expected a size like 8GiB"},
      {{"model", "lenet", "--set", "parallel.workers=0"}, "0 workers"},
      {{"model", "char-gpt", "--set", "data.kind=digits"}, "'char-gpt' is made to continue texts"},
      {{"graph", "lenet", "--train", "--eval"}, "--train excludes --eval"},
      {{"graph", "lenet", "--json", "--dot"}, "--json excludes --dot"},
      {{"graph", "lenet", "--passes", "fuze"}, "did you mean fuse"},
      {{"graph", "lenet", "--threads", "2"}, "--threads requires --compiled"},
      {{"schedules", "--plot", "cosin"}, "did you mean cosine?"},
      {{"schedules", "--plot", "cosine", "--set", "train.optimizer.warmup=2"}, "warmup: got 2"},
      {{"schedules", "--set", "train.optimizer.warmup=2"}, "--set goes with --plot"},
      {{"job", "--json", "--markdown"}, "--json excludes --markdown"},
      {{"modles"}, "--help"},
  };
  for (const Mistake& m : mistakes) {
    const Ran ran = inspect(m.arguments);
    EXPECT_EQ(ran.code, 2) << m.says << "\n" << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(m.says));
    EXPECT_EQ(ran.out, "") << m.says;
  }
}

}  // namespace
}  // namespace trireme::system_test
