// What `inspect layouts` lists is what runs send: bytes of a step, by axis.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

struct Case {
  const char* name;
  Words model, sets;
  std::string mesh = "model=4";
  int workers = 4, tiles = 4;
};

const Words kMlp{"model.name=mnist-mlp", "data.kind=synthetic", "data.shape=784"};
const Words kConv{"model.name=mnist-cnn", "data.kind=synthetic", "data.shape=1x28x28"};
const Words kUntied{"model.name=local-net", "data.kind=synthetic", "data.shape=1x28x28"};
// Phantom runs take 65 characters, whatever the text has.
const Words kGpt{"model.name=char-gpt", "data.kind=text", "data.path=text.txt", "data.context=32"};

std::vector<Case> cases() {
  const char* gpt = "model.options={width=64,layers=2,heads=4}";
  return {
      {"mlp, tensor", kMlp, {"parallel.style=tensor"}},
      {"mlp, replicas", kMlp, {"parallel.style=tensor"}, "data=2,model=2", 4, 2},
      {"mlp, shards", kMlp, {"parallel.style=tensor", "train.logical_shards=4"}, "data=2,model=2", 4, 2},
      {"mlp, uneven", kMlp, {"parallel.style=tensor"}, "model=3", 3, 3},
      {"mlp, chunks", kMlp, {"parallel.style=tensor", "parallel.overlap_chunks=2"}},
      {"conv net, spatial", kConv, {"parallel.style=spatial"}},
      {"conv net, spatial, uneven", kConv, {"parallel.style=spatial"}, "model=3", 3, 3},
      {"untied filters, spatial", kUntied, {"parallel.style=spatial"}},
      {"one weird trick", kConv, {"parallel.style=one-weird-trick"}},
      {"vertical", kConv, {"parallel.style=one-weird-trick", "parallel.fc_scheme=vertical"}},
      {"horizontal", kConv, {"parallel.style=one-weird-trick", "parallel.fc_scheme=horizontal"}},
      {"gpt, tensor", kGpt, {gpt, "parallel.style=tensor"}},
      {"gpt, sequence", kGpt, {gpt, "parallel.style=sequence"}},
      {"gpt, expert", kGpt, {"model.options={width=64,layers=2,heads=4,experts=4}", "parallel.style=expert"}},
  };
}

Words joined(std::initializer_list<Words> parts) {
  Words all;
  for (const Words& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(InspectLayouts, ListsTheBytesThatRunsSend) {
  constexpr int kBatchPerWorker = 5;
  const Workspace w;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "A text that is long enough for a model of characters. ";
  w.write("text.txt", text);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    // Where tiles are fixed, layouts follow from the job alone, and not from the links that a command knows.
    const Words job = joined({{"--mesh", c.mesh, "--json", "--set"},
                              c.model,
                              c.sets,
                              {"train.logical_tiles=" + std::to_string(c.tiles)}});
    const Words input = c.model == kGpt ? Words{"--classes", "65", "--shape", "32"} : Words{};
    const std::string each = std::to_string(kBatchPerWorker),
                      batch = std::to_string(kBatchPerWorker * c.workers);
    const Ran listed = w.run(joined({{"inspect", "layouts", "--batch", batch}, input, job}));
    const Ran played = w.run(
        joined({{"simulate", "--algorithm", "fixed-tree", "--steps", "4", "--batch-per-rank", each}, job}));
    ASSERT_EQ(listed.code, 0) << listed.err;
    ASSERT_EQ(played.code, 0) << played.err;
    const Json axes = Json::parse(listed.out)["axes"];
    ASSERT_EQ(axes.size(), 1U);
    double rows = 0;
    for (const Json& row : axes[0]["reshards"]) rows += row["bytes"].get<double>();
    const double sent = Json::parse(played.out)[0]["bytes_by_axis"]["model"];
    EXPECT_EQ(rows, axes[0]["bytes"].get<double>());
    EXPECT_GT(sent, 0);
    EXPECT_NEAR(rows, sent, 0.01 * sent);
  }
}

TEST(InspectLayouts, NamesTheEdgesOfImages) {
  const Workspace w;
  const Ran ran = w.run({"inspect", "layouts", "local-net", "--mesh", "model=4", "--style", "spatial"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("halo_exchange"));
  EXPECT_THAT(ran.out, HasSubstr("dim 2 -> dim 2 and its edges  local2/locally_connected2d"));
}

// A file may name the mesh and leave its product out, or be asked about another mesh than its own.
TEST(InspectLayouts, TakesTheMeshOfTheFileOrOfTheOptionAsOtherCommandsDo) {
  const Workspace w;
  const std::string model = "[model]\nname = \"mnist-mlp\"\n[data]\nkind = \"synthetic\"\nshape = \"784\"\n";
  w.write("mesh.toml", model + "[parallel]\nmesh = \"data=2,model=2\"\nstyle = \"tensor\"\n");
  w.write("workers.toml", model + "[parallel]\nworkers = 4\nmesh = \"model=4\"\nstyle = \"tensor\"\n");
  const Ran own = w.run({"inspect", "layouts", "mesh.toml"});
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_THAT(own.out, HasSubstr("Axis model (2 positions)"));
  const Ran other = w.run({"inspect", "layouts", "workers.toml", "--mesh", "model=10"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("Axis model (10 positions)"));
  const Ran memory = w.run({"inspect", "model", "workers.toml", "--mesh", "model=10"});
  EXPECT_EQ(memory.code, 0) << memory.err;
  EXPECT_THAT(memory.out, HasSubstr("model 9"));
}

TEST(Plan, AReplicaOfSeveralWorkersIsNotAWorkerAlone) {
  const Workspace w;
  const Ran one = w.run({"plan", "mnist-mlp", "--mesh", "data=1,model=4"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("One replica of 4 workers"));
  EXPECT_THAT(one.out, ::testing::Not(HasSubstr("nothing travels")));
  const Ran two = w.run({"plan", "mnist-mlp", "--mesh", "data=2,model=2", "--json"});
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(Json::parse(two.out)["workers"], 4);
}

}  // namespace
}  // namespace trireme::system_test
