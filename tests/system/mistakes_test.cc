// Mistakes that users make, through the real binary: the exit code (docs/errors.md), and a message that names
// the cause, the place and what to do.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

constexpr int kFailed = 1, kUsage = 2;

struct Mistake {
  std::vector<std::string> arguments;
  int code;
  std::vector<std::string> says;  // every one of these
};

std::string shown(const std::vector<std::string>& arguments) {
  std::string command = "trireme";
  for (const std::string& a : arguments) command += " " + a;
  return command;
}

void expect_told(const Ran& ran, const Mistake& m) {
  SCOPED_TRACE(shown(m.arguments) + "\n" + ran.err);
  EXPECT_EQ(ran.code, m.code);
  EXPECT_EQ(ran.signal, 0);
  EXPECT_EQ(ran.out, "") << "results only";
  const std::size_t first = ran.err.find("error: ");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(ran.err.find("error: ", first + 1), std::string::npos) << "told once";
  for (const std::string& part : m.says)
    EXPECT_NE(ran.err.find(part, first), std::string::npos) << "lacks: " << part;
}

// Each in a place of its own, which `prepare` fills.
template <class Prepare>
void expect_all_told(const std::vector<Mistake>& mistakes, Prepare prepare) {
  for (const Mistake& m : mistakes) {
    const Workspace w;
    prepare(w);
    expect_told(w.run(m.arguments), m);
  }
}

std::vector<std::string> tiny(const std::vector<std::string>& sets, std::vector<std::string> more = {}) {
  std::vector<std::string> args{
      "train", "--quiet", "--set", "train.steps=2", "data.limit_train=60", "data.limit_test=20"};
  args.insert(args.end(), sets.begin(), sets.end());
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<std::string> set(const std::vector<std::string>& sets) {
  std::vector<std::string> args{"train", "--set"};
  args.insert(args.end(), sets.begin(), sets.end());
  return args;
}

void make_dir(const Workspace& w, const std::string& name) { std::filesystem::create_directories(w / name); }

TEST(Mistakes, OnTheCommandLine) {
  expect_all_told(
      {
          {{}, kUsage, {"trireme --help"}},
          {{"trian"}, kUsage, {"unknown command 'trian'; did you mean train?", "trireme --help"}},
          {{"my.toml"}, kUsage, {"unknown command 'my.toml'", "trireme train my.toml"}},
          {{"train", "--bogus"}, kUsage, {"--bogus", "trireme train --help"}},
          {{"train", "a.toml", "b.toml"}, kUsage, {"b.toml", "trireme train --help"}},
          {{"train", "--workers", "0"}, kUsage, {"--workers: got '0', expected an integer from 1 to 65536"}},
          {{"train", "--workers", "two"},
           kUsage,
           {"--workers: got 'two', expected an integer from 1 to 65536"}},
          {{"train", "--set"}, kUsage, {"--set", "KEY=VALUE"}},
          {{"train", "--set", "train.epochs"}, kUsage, {"--set got 'train.epochs', expected key=value"}},
          {{"train", "train.epochs=2"},
           kUsage,
           {"'train.epochs=2' is not a job file; to set a key: --set train.epochs=2"}},
          {{"train", "--transport", "pigeon"},
           kUsage,
           {"key 'parallel.transport'", "auto, shm, tcp, mpi, inproc"}},
          {{"train", "--fault", "kill rank 1"}, kUsage, {"RANK:KIND@SITE:INDEX"}},
          {{"train", "--workers", "2", "--fault", "2:kill@collective:1"},
           kUsage,
           {"--fault got rank 2, expected 0 to 1: the job has 2 ranks"}},
          {{"plan", "--gflops", "-3"}, kUsage, {"--gflops: got '-3', expected a number above 0"}},
          {{"simulate", "--latency-us", "x"}, kUsage, {"--latency-us: got 'x', expected a number from 0"}},
          {{"simulate", "--set", "train.batch=64"}, kUsage, {"a phantom run has it from --batch-per-rank"}},
          {{"inspect", "op", "cov2d"}, kUsage, {"no op is called 'cov2d'; did you mean conv2d"}},
          {{"train", "--workers", "4", "--set", "train.logical_shards=2"},
           kUsage,
           {"4 workers cannot share 2 logical shards", "--workers 2", "train.logical_shards=4"}},
          {{"train", "--workers", "2", "--transport", "mpi"}, kUsage, {"mpirun -n 2"}},
      },
      [](const Workspace&) {});
}

TEST(Mistakes, InAJobFile) {
  const std::vector<Mistake> mistakes{
      {{"train", "missing.toml"},
       kUsage,
       {"'missing.toml'", "No such file",
        "expected a job file in TOML, by its path from the current folder"}},
      {{"train", "folder"}, kUsage, {"'folder'", "Is a directory", "expected a job file in TOML"}},
      {{"train", "syntax.toml"}, kUsage, {"syntax.toml:1:", "not valid TOML"}},
      {{"train", "bytes.toml"}, kUsage, {"bytes.toml:1:", "not valid TOML", "utf-8"}},
      {{"train", "twice.toml"}, kUsage, {"twice.toml:3:", "not valid TOML"}},
      {{"train", "key.toml"},
       kUsage,
       {"key.toml:2:9: unknown key 'train.epoch'; did you mean 'train.epochs'?"}},
      {{"train", "table.toml"}, kUsage, {"table.toml:1:9: 'train' is a table of keys", "train.epochs"}},
      {{"train", "type.toml"},
       kUsage,
       {"type.toml:2:10: key 'train.epochs'", "string", "expected an integer"}},
      {{"train", "range.toml"}, kUsage, {"range.toml:2:9: key 'train.batch': got 0, expected between 1 and"}},
      {{"train", "attribute.toml"},
       kUsage,
       {"attribute.toml:3:9: key 'train.optimizer.beta1': got 0.9", "'sgd' has only weight_decay"}},
      {{"train", "layer.toml"}, kUsage, {"layer.toml:1:1: layer 1 (conv2d): 'window' is missing"}},
      {{"train", "schedule.toml"},
       kUsage,
       {"schedule.toml:2:14: key 'train.optimizer.milestones'", "\"step\""}},
  };
  expect_all_told(mistakes, [](const Workspace& w) {
    make_dir(w, "folder");
    w.write("syntax.toml", "[train\nepochs = 3\n");
    w.write("bytes.toml", "name = \"\xff\xfe\"\n");
    w.write("twice.toml", "[train]\nepochs = 3\nepochs = 4\n");
    w.write("key.toml", "[train]\nepoch = 3\n");
    w.write("table.toml", "train = 3\n");
    w.write("type.toml", "[train]\nepochs = \"three\"\n");
    w.write("range.toml", "[train]\nbatch = 0\n");
    w.write("attribute.toml", "[train.optimizer]\nkind = \"sgd\"\nbeta1 = 0.9\n");
    w.write("layer.toml",
            "[[model.layers]]\nkind = \"flatten\"\n[[model.layers]]\nkind = \"conv2d\"\nout = 3\n");
    w.write("schedule.toml", "[train.optimizer]\nmilestones = [0.5]\n");
  });
}

TEST(Mistakes, InKeysAndValues) {
  expect_all_told(
      {
          {set({"train.epoch=3"}), kUsage, {"unknown key 'train.epoch'; did you mean 'train.epochs'?"}},
          {set({"train.epochs=many"}), kUsage, {"key 'train.epochs': got 'many', expected an integer"}},
          {set({"train.optimizer.lr=-1"}), kUsage, {"--set: key 'train.optimizer.lr'", "above 0"}},
          {set({"model.name=alexnot"}), kUsage, {"no model is called 'alexnot'", "lenet", "alexnet"}},
          {set({"train.optimizer.kind=adom"}), kUsage, {"no optimizer is called 'adom'", "adam"}},
          {set({"train.optimizer.schedule=stair"}),
           kUsage,
           {"'train.optimizer.schedule': got \"stair\"", "step"}},
          {set({"data.kind=mnist"}), kUsage, {"'data.kind': got \"mnist\"", "idx"}},
          {set({"parallel.collective=star"}), kUsage, {"star", "fixed-tree"}},
          {set({"parallel.agreement=magic"}), kUsage, {"'magic'; expected one of: bsp"}},
          {set({"parallel.codec=zip"}), kUsage, {"'parallel.codec': got \"zip\"", "none"}},
          {set({"train.device=gpu"}), kUsage, {"'train.device': got \"gpu\"", "cpu"}},
          {set({"train.precision=f8"}), kUsage, {"'train.precision': got \"f8\"", "f32, bf16, f16"}},
          {set({"model.name=mnist-cnn", "model.options={width=3}"}),
           kUsage,
           {"'mnist-cnn' has no option 'width'", "scale, dropout"}},
          {set({"train.batch=4", "train.logical_shards=8"}),
           kUsage,
           {"a batch of 4 samples cannot be cut into 8 logical shards", "train.batch to 8 or more"}},
          {set({"model.cut_at=fc2"}), kUsage, {"'model.cut_at'", "model.init_from"}},
          {tiny({"model.freeze=conv9"}), kUsage, {"no layer 'conv9'", "conv1, conv2, fc1, fc2"}},
          {tiny({"train.optimizer.lr=900000", "train.steps=20"}),
           kFailed,
           {"the loss is not a number at step", "the first tensor that broke", "train.optimizer.lr",
            "train.nan"}},
          {tiny({"model.name=char-gpt"}), kUsage, {"'char-gpt'", "data.kind = \"text\""}},
          {tiny({"model.layers=[{kind='conv2d', out=8, window=99}, {kind='classifier'}]"}),
           kUsage,
           {"layer 0 (conv2d)", "got 99", "28"}},
      },
      [](const Workspace&) {});
}

// What people type who know other trainers, or guess. The whole first line is golden.
TEST(Mistakes, AsNewcomersMakeThem) {
  const std::vector<Mistake> mistakes{
      {{"train", "--epochs", "3"},
       kUsage,
       {"error: unknown option '--epochs'; set the job's key: --set train.epochs=3\n",
        "See 'trireme train --help'."}},
      {{"train", "--lr", "0.1"},
       kUsage,
       {"error: unknown option '--lr'; set the job's key: --set train.optimizer.lr=0.1\n"}},
      {{"train", "--learning-rate=0.1"},
       kUsage,
       {"error: unknown option '--learning-rate'; set the job's key: --set train.optimizer.lr=0.1\n"}},
      {{"train", "--batch-size", "64"},
       kUsage,
       {"error: unknown option '--batch-size'; set the job's key: --set train.batch=64\n"}},
      {{"train", "--data", "my.csv"},
       kUsage,
       {"error: unknown option '--data'; set the job's key: --set data.path=my.csv\n"}},
      {{"train", "--codec", "topk"},
       kUsage,
       {"error: unknown option '--codec'; set the job's key: --set parallel.codec=topk\n"}},
      {{"train", "--num-workers", "4"}, kUsage, {"error: unknown option '--num-workers'; use --workers\n"}},
      {{"train", "--gpu"}, kUsage, {"error: unknown option '--gpu'; use --device cuda\n"}},
      {{"train", "--st", "train.steps=3"}, kUsage, {"error: unknown option '--st'; did you mean --set?\n"}},
      {{"version", "--jsn"}, kUsage, {"error: unknown option '--jsn'; did you mean --json?\n"}},
      {{"eval", "r", "--epochs", "3"}, kUsage, {"error: unknown option '--epochs'\n"}},
      {{"eval"},
       kUsage,
       {"error: trireme eval needs RUN: Folder of a run, such as runs/digits-1",
        "See 'trireme eval --help'."}},
      {{"predict"}, kUsage, {"error: trireme predict needs RUN: Folder of a run, such as runs/digits-1"}},
      {{"predict", "r", "--tokens", "many"}, kUsage, {"error: --tokens: got 'many', expected a number\n"}},
      {{"checkpoint"}, kUsage, {"error: trireme checkpoint needs one of: info, verify, diff\n"}},
      {{"checkpoint", "diff", "a"},
       kUsage,
       {"error: trireme checkpoint diff needs SECOND: Second checkpoint to compare\n",
        "See 'trireme checkpoint diff --help'."}},
      {{"inspect"}, kUsage, {"error: trireme inspect needs one of: ops, models, layers, "}},
      {{"inspect", "nothing"}, kUsage, {"error: 'nothing' is not one of: ops, models, layers, "}},
      {{"inspect", "modles"}, kUsage, {"error: there is no 'trireme inspect modles'; did you mean models"}},
      {{"inspect", "op"}, kUsage, {"error: trireme inspect op needs NAME: Name of the op\n"}},
      {{"inspect", "op", "nope"},
       kUsage,
       {"error: no op is called 'nope'; `trireme inspect ops` lists them all\n"}},
      {{"plan", "lenett"}, kUsage, {"error: no model is called 'lenett'; did you mean lenet"}},
      {{"help", "trian"}, kUsage, {"error: unknown command 'trian'; did you mean train?\n"}},
      {{"simulate", "--ranks", "many"},
       kUsage,
       {"error: --ranks: got 'many', expected an integer from 1 to 65536\n"}},
      {{"train", "--workers", "2", "--coordinator", "nonsense"},
       kUsage,
       {"error: --coordinator nonsense would not be used: this command starts its workers itself",
        "mpirun, srun or torchrun, and for --hosts"}},
      {set({"foo.bar=1"}), kUsage, {"error: unknown key 'foo.bar'; trireme inspect job lists the keys\n"}},
  };
  expect_all_told(mistakes, [](const Workspace&) {});
}

TEST(Mistakes, GivingSomethingElseThanAJobFile) {
  const std::vector<Mistake> mistakes{
      {{"train", "iris.csv"},
       kUsage,
       {"error: 'iris.csv' holds samples and is not a job file; to train on it: trireme train --set "
        "data.kind=csv "
        "data.path=iris.csv model.name=mlp\n"}},
      {{"train", "notes.txt"}, kUsage, {"data.kind=text data.path=notes.txt model.name=char-gpt\n"}},
      {{"train", "arrays/x.npy"}, kUsage, {"trireme train --set data.kind=npy data.path=arrays\n"}},
      {{"train", "arrays"},
       kUsage,
       {"to train on a folder of images: ", "data.kind=images data.path=arrays"}},
      {{"train", "lenet"},
       kUsage,
       {"error: 'lenet' is a model, not a job file; to train it: trireme train --set model.name=lenet\n"}},
      {{"train", "char-gpt"},
       kUsage,
       {"trireme train --set model.name=char-gpt data.kind=text data.path=FILE.txt\n"}},
      {{"train", "resnet50"},
       kUsage,
       {"model.name=resnet50 data.kind=images data.path=FOLDER data.shape=3x224x224\n"}},
      {{"train", "digits"},
       kUsage,
       {"error: 'digits' is not a job file; to train with one: trireme train recipes/digits.toml\n"}},
      {{"train", "recipes/vgg.toml"},
       kUsage,
       {"error: cannot read 'recipes/vgg.toml': No such file or directory; expected a job file in TOML, by "
        "its "
        "path from the current folder; without one `trireme train` trains on the built-in digits\n"}},
      {{"train", "open.toml"},
       kUsage,
       {"error: open.toml:1:",
        "not valid TOML: the string is not closed; expected a quote before the end of the line\n"}},
  };
  expect_all_told(mistakes, [](const Workspace& w) {
    for (const char* dir : {"arrays", "recipes"}) make_dir(w, dir);
    w.write("iris.csv", "a,b,kind\n1,2,x\n3,4,y\n");
    w.write("notes.txt", "some words\n");
    w.write("arrays/x.npy", "not read");
    w.write("recipes/digits.toml", "name = \"digits\"\n");
    w.write("open.toml", "name = \"digits\n");
  });
}

std::vector<std::string> agreement(const std::string& name, const std::vector<std::string>& sets,
                                   const std::vector<std::string>& more = {"--workers", "4"}) {
  std::vector<std::string> all{"parallel.agreement=" + name};
  all.insert(all.end(), sets.begin(), sets.end());
  std::vector<std::string> args = set(all);
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

TEST(Mistakes, WithManyWorkers) {
  expect_all_told(
      {
          {agreement("bsp", {"parallel.period=5"}),
           kUsage,
           {"--set: key 'parallel.period': got 5", "agreement 'bsp' has no keys of its own"}},
          {agreement("averaging", {"parallel.staleness=2"}),
           kUsage,
           {"key 'parallel.staleness'", "'averaging' has only period, outer"}},
          {agreement("averaging", {"parallel.period=-1"}),
           kUsage,
           {"'parallel.period': got -1, expected between 0"}},
          {agreement("easgd", {"parallel.period=0"}),
           kUsage,
           {"'parallel.period': got 0, expected between 1 and 1000000; only averaging adapts the period"}},
          {agreement("averaging", {"parallel.outer_lr=0.7"}),
           kUsage,
           {"set parallel.outer to sgd or nesterov"}},
          {agreement("averaging", {"parallel.outer=adam"}), kUsage, {"one of: average, sgd, nesterov"}},
          {agreement("ssp", {}, {"--workers", "2", "--servers", "0"}),
           kUsage,
           {"'parallel.servers': got 0, expected 1 or more", "'ssp' keeps the model on servers"}},
          {agreement("bsp", {}, {"--workers", "2", "--servers", "1"}), kUsage, {"'bsp' uses no servers"}},
          {agreement("downpour", {"train.optimizer.clip_norm=1"}),
           kUsage,
           {"'train.optimizer.clip_norm': got 1.0, expected 0", "'downpour' runs the optimizer on servers"}},
          {agreement("ssp", {"parallel.local_replicas=2"}),
           kUsage,
           {"'parallel.local_replicas': got 2", "has only staleness", "set parallel.agreement=downpour"}},
          {agreement("downpour", {"train.precision=f16"}), kUsage, {"expected f32 or bf16"}},
          {agreement("downpour", {"train.nan=skip"}), kUsage, {"'train.nan': got \"skip\", expected stop"}},
          {agreement("easgd", {"train.logical_shards=8"}),
           kUsage,
           {"'train.logical_shards': got 8, expected 0, or 4 as there are workers"}},
          {agreement("hogwild", {}, {"--workers", "2", "--transport", "tcp"}),
           kUsage,
           {"shared memory: got transport 'tcp', expected shm or inproc"}},
          {agreement("averaging", {"train.batch=3"}), kUsage, {"train.batch to 4 or more"}},
          {agreement("ssp", {"parallel.colocate=maybe"}), kUsage, {"one of: auto, yes, no"}},
          {{"train", "--servers", "many"},
           kUsage,
           {"--servers: got 'many', expected an integer from 0 to 65536"}},
          {{"train", "--slow", "2:4"},
           kUsage,
           {"--slow got '2:4', expected rank=R,factor=F", "rank=2,factor=4"}},
          {{"train", "--workers", "2", "--slow", "rank=2,factor=4"}, kUsage, {"got rank 2, expected 0 to 1"}},
      },
      [](const Workspace&) {});
}

// A job on a mesh, and what is beside it.
std::vector<std::string> on_mesh(const std::string& mesh, std::vector<std::string> sets = {},
                                 std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--mesh", mesh});
  return tiny(sets, std::move(more));
}

// Found before anything is started: there is no run folder.
void expect_refused(const std::vector<Mistake>& mistakes,
                    const std::function<void(const Workspace&)>& prepare) {
  for (const Mistake& m : mistakes) {
    const Workspace w;
    prepare(w);
    expect_told(w.run(m.arguments), m);
    EXPECT_FALSE(std::filesystem::exists(w / "runs")) << shown(m.arguments);
  }
}

TEST(Mistakes, OnAMesh) {
  const auto mesh = [](const char* text, const char* says) { return Mistake{on_mesh(text), kUsage, {says}}; };
  expect_refused(
      {
          mesh("2x2", "a mesh is axes with their sizes: got '2x2', expected such as data=2,model=4"),
          mesh("data=2,model", "got 'data=2,model'"),
          mesh("data=2,model=two", "got 'data=2,model=two'"),
          mesh("data=2,,model=2", "got 'data=2,,model=2'"),
          mesh("model=0", "axis 'model' of size 0: expected at least 1"),
          mesh("model=-1", "axis 'model' of size -1: expected at least 1"),
          mesh("Model=2", "'Model' is no name of an axis: expected a-z"),
          mesh("model=2,model=2", "two axes of the mesh are called 'model'"),
          mesh("data=2,modle=2", "got axis 'modle', expected data, stage or model; did you mean model?"),
          mesh("data=2,staeg=2", "got axis 'staeg', expected data, stage or model; did you mean stage?"),
          mesh("model=2,data=2", "got model before data, expected data, stage, model"),
          mesh("stage=2,data=2", "got stage before data, expected data, stage, model"),
          {on_mesh("data=2,model=2", {}, {"--workers", "3"}),
           kUsage,
           {"is of 4 workers, and there are 3; leave --workers out, or set --workers 4"}},
          {on_mesh("data=3,model=2", {"train.logical_shards=2"}),
           kUsage,
           {"the 3 replicas of parallel.mesh cannot share 2 logical shards: use data=2 or set"}},
          {on_mesh("model=3", {"train.logical_tiles=2"}),
           kUsage,
           {"3 workers along the model axis cannot share 2 parts of the model", "train.logical_tiles of 3"}},
          {on_mesh("model=2", {"train.logical_tiles=99"}), kUsage, {"would have 50 of the 99 parts"}},
          {on_mesh("model=2", {"parallel.weights=shared"}), kUsage, {"one replica has nobody to share with"}},
          {on_mesh("data=2,model=2", {"parallel.weights=shared", "train.logical_tiles=4"}),
           kUsage,
           {"expected auto or own", "several tiles"}},
          {on_mesh("model=2", {"parallel.codec=factors"}),
           kUsage,
           {"parallel.codec = \"factors\"", "use powersgd, auto"}},
          {on_mesh("data=2,model=2", {"train.optimizer.kind=lars", "parallel.agreement=gossip"}),
           kUsage,
           {"parallel.agreement = bsp", "rate per tensor"}},
          {on_mesh("model=2", {"parallel.overlap_chunks=0"}), kUsage, {"'parallel.overlap_chunks': got 0"}},
          {on_mesh("model=2", {"parallel.style=tensor", "parallel.fc_scheme=vertical"}),
           kUsage,
           {"'parallel.fc_scheme'", "parallel.style = one-weird-trick"}},
          {{"inspect", "layouts", "lenet", "--mesh", "data=2,modle=2"},
           kUsage,
           {"got axis 'modle', expected data, stage or model; did you mean model?"}},
          {tiny({"parallel.style=tensor"}),
           kUsage,
           {"'parallel.style'", "without a model axis; set parallel.mesh, such as data=1,model=2"}},
      },
      [](const Workspace&) {});
}

TEST(Mistakes, InTheWayAModelIsCut) {
  const auto pinned = [](const char* mesh, const char* pin, std::vector<std::string> says) {
    return Mistake{on_mesh(mesh, {fmt::format("parallel.layouts=[\"{}\"]", pin)}), kUsage, std::move(says)};
  };
  const auto styled = [](const char* mesh, const char* model, const char* style,
                         std::vector<std::string> says) {
    const std::vector<std::string> sets{fmt::format("model.name={}", model),
                                        fmt::format("parallel.style={}", style)};
    return Mistake{on_mesh(mesh, sets), kUsage, std::move(says)};
  };
  const std::vector<std::string> gpt{"data.kind=text", "data.path=text.txt", "data.context=16",
                                     "model.name=char-gpt", "parallel.style=expert"};
  const auto mixture = [&](const char* options) {
    std::vector<std::string> sets = gpt;
    sets.push_back(fmt::format("model.options={{layers=2, width=16, heads=2{}}}", options));
    return on_mesh("model=3", sets);
  };
  expect_refused(
      {
          pinned("model=2", "fc1/weight", {"expected NAME: AXIS=DIMENSION, such as"}),
          pinned("model=2", "fc1/weight: model=x", {"expected NAME: AXIS=DIMENSION, such as"}),
          pinned("model=2", "fc1/weight: modle=0", {"expected axis model of a parallel.mesh that has it"}),
          pinned("model=2", "cnv1/weight: model=0",
                 {"layout 'cnv1/weight': no parameter has such a name; `trireme inspect model` lists them; "
                  "did you mean conv1/weight, conv2/weight?"}),
          pinned("model=2", "dense*: model=0", {"layout 'dense*': no parameter has such a name"}),
          pinned("model=12", "fc2/weight: model=0",
                 {"'fc2/weight' is f32[10, 128], which 12 positions cannot have as dim 0", "smaller axis",
                  "it can be: whole, dim 1"}),
          pinned("model=2", "fc2/weight: model=2", {"which 2 positions cannot have as dim 2"}),
          pinned("model=2", "fc2/weight: model=0x3",
                 {"layout 'fc2/weight: model=0x3': ", "cannot have as dim 0 in 3 blocks"}),
          styled("model=2", "lenet", "tensr",
                 {"no style 'tensr'; there are: price, ", "did you mean tensor?"}),
          styled("model=2", "mlp", "spatial",
                 {"style 'spatial' does not fit the model on axis 'model' of 2"}),
          styled("model=2", "lenet", "sequence", {"style 'sequence' does not fit", "use a smaller axis"}),
          styled("model=2", "lenet", "expert", {"style 'expert' does not fit", "it has no layer of experts"}),
          {on_mesh("data=2,model=3", {"train.batch=4", "parallel.style=data"}),
           kUsage,
           {"fewer samples than the axis has positions; use a larger train.batch"}},
          {{"plan", "mlp", "--mesh", "model=2", "--set", "parallel.style=spatial"},
           kUsage,
           {"style 'spatial' does not fit the model"}},
          {{"simulate", "--mesh", "model=2", "--set", "model.name=mlp", "parallel.style=spatial"},
           kUsage,
           {"style 'spatial' does not fit the model"}},
          {mixture(""), kUsage, {"it has no layer of experts", "the option experts of a model"}},
          {mixture(", experts=2"),
           kUsage,
           {"'block1/experts/up/weight' (f32[2, 16, 64]) cannot lie on axis 'model' of 3 as asked for",
            "use a smaller axis, or another style"}},
      },
      [](const Workspace& w) {
        std::string text;
        for (int i = 0; i < 300; ++i) text += fmt::format("line {} of a text\n", i * i);
        w.write("text.txt", text);
      });
}

TEST(Mistakes, InTheWayAModelIsCutInItsDepth) {
  const auto cut = [](const char* mesh, std::vector<std::string> sets, std::vector<std::string> says) {
    sets.push_back("model.name=lenet");
    return Mistake{on_mesh(mesh, sets), kUsage, std::move(says)};
  };
  expect_refused(
      {
          cut("stage=6", {},
              {"6 segments: the model has 4 layers between which it can be cut: conv1, conv2, ",
               "use 4 stages or fewer"}),
          cut("stage=2", {"train.segments=9"}, {"9 segments: the model has 4 layers"}),
          cut("stage=2", {"train.segments=1"}, {"'train.segments': got 1, expected 2 or more"}),
          cut("stage=2", {R"(parallel.stage_cuts=["cnv2"])"},
              {"parallel.stage_cuts: no layer is called 'cnv2'; did you mean conv2",
               "the layers are: conv1"}),
          cut("stage=2", {R"(parallel.stage_cuts=["conv1"])"}, {"'conv1' is the first layer"}),
          cut("stage=3", {R"(parallel.stage_cuts=["fc1", "conv2"])"}, {"'conv2' does not come behind 'fc1'"}),
          cut("stage=3", {R"(parallel.stage_cuts=["fc1"])"},
              {"'parallel.stage_cuts': got [\"fc1\"], expected 2 or more: a mesh with stage=3"}),
          cut("stage=2",
              {"parallel.pipeline=interleaved", "parallel.virtual_stages=2", "parallel.micro_batches=5"},
              {"needs micro-batches in groups of 2: got 5", "the nearest is 6"}),
          cut("stage=2", {"parallel.pipeline=zb-h3"}, {"'parallel.pipeline': got \"zb-h3\"", "zb-h1"}),
          cut("stage=2", {"parallel.micro_batches=100", "train.batch=64"},
              {"a batch of 64 samples cannot be cut into 100 logical shards"}),
          cut("data=2,stage=2", {"parallel.micro_batches=3", "train.logical_shards=8"},
              {"'parallel.micro_batches': got 3, expected 4, or 0"}),
      },
      [](const Workspace&) {});
  expect_refused(
      {{{"simulate", "--mesh", "stage=6", "--set", "model.name=lenet"}, kUsage, {"the model has 4 layers"}}},
      [](const Workspace&) {});
}

TEST(Mistakes, WithHosts) {
  expect_all_told(
      {
          {{"train", "--hosts", "nowhere"},
           kUsage,
           {"'nowhere'", "No such file", "lines like: node1 slots=4"}},
          {{"train", "--hosts", "empty"}, kUsage, {"empty: no hosts"}},
          {{"train", "--hosts", "bad"}, kUsage, {"bad:2: got 'slots=x' after host 'b'"}},
          {{"train", "--hosts", "two", "--workers", "3"},
           kUsage,
           {"3 ranks need 3 slots, and 2 hosts have 2"}},
          {{"train", "--hosts", "far"}, kUsage, {"rank 0 would listen at 'node1'", "--insecure"}},
          {{"train", "--hosts", "two", "--transport", "shm"}, kUsage, {"use tcp, or auto"}},
          {agreement("hogwild", {}, {"--hosts", "two"}), kUsage, {"with all workers on one host"}},
          {{"train", "--hosts", "two", "--ssh", " "}, kUsage, {"--ssh is empty"}},
      },
      [](const Workspace& w) {
        w.write("empty", "# nobody\n");
        w.write("bad", "a\nb slots=x\n");
        w.write("two", "127.0.0.1\n127.0.0.2\n");
        w.write("far", "node1\n");
      });
}

TEST(Mistakes, InTheData) {
  const std::vector<Mistake> mistakes{
      {set({"data.kind=idx"}), kUsage, {"key 'data.path': got \"\", expected a path, for kind 'idx'"}},
      {set({"data.kind=idx", "data.path=nowhere"}),
       kFailed,
       {"cannot list 'nowhere'", "No such file", "set data.path", "how_to_own_data"}},
      {{"train", "idx.toml"}, kFailed, {"idx.toml:3:8: ", "'nowhere'", "set data.path"}},
      {set({"data.kind=idx", "data.path=empty"}),
       kFailed,
       {"empty: no file named like train-images-idx3-ubyte", "set data.path"}},
      {set({"data.kind=images", "data.path=empty", "data.shape=3x8x8"}),
       kFailed,
       {"empty: no folders with images", "one folder per class"}},
      {set({"data.kind=images", "data.path=empty"}), kUsage, {"key 'data.shape'", "like 3x64x64"}},
      {set({"data.kind=idx", "data.path=idx"}),
       kFailed,
       {"idx/train-images-idx3-ubyte, offset 19", "ends early: got 3 bytes of values, expected 7840"}},
      {set({"data.kind=csv", "data.path=table.csv", "model.name=mlp"}),
       kFailed,
       {"table.csv, line 3, offset 17: column 1: got 'four', expected a finite number"}},
      {set({"data.kind=images", "data.path=pictures", "data.shape=3x8x8"}),
       kFailed,
       {"pictures/cat/a.png, offset 0: neither a JPEG nor a PNG", "remove or convert it"}},
      {set({"data.kind=text", "data.path=short.txt", "model.name=char-gpt"}),
       kUsage,
       {"short.txt, offset 6", "a window takes 129", "a longer text or a shorter context"}},
      {set({"data.kind=npy", "data.path=table.csv"}), kFailed, {"table.csv"}},
  };
  expect_all_told(mistakes, [](const Workspace& w) {
    for (const char* dir : {"empty", "idx", "pictures/cat"}) make_dir(w, dir);
    w.write("idx.toml", "[data]\nkind = \"idx\"\npath = \"nowhere\"\n");
    w.write("idx/train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0\0\x0a\0\0\0\x1c\0\0\0\x1c"
                                                       "abc",
                                                       19));
    w.write("idx/train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x0a"
                                                       "0123456789",
                                                       18));
    w.write("table.csv", "a,b,kind\n1,2,x\n3,four,y\n");
    w.write("pictures/cat/a.png", "no picture\n");
    w.write("short.txt", "short\n");
  });
}

TEST(Mistakes, InTheRunFolder) {
  const Workspace w;
  w.write("file", "in the way");
  expect_told(w.run(tiny({}, {"--run-dir", "file"})),
              {{"--run-dir", "file"}, kFailed, {"'file/log'", "Not a directory"}});
  expect_told(w.run(tiny({}, {"--run-dir", "/proc/here"})),
              {{"--run-dir", "/proc/here"}, kFailed, {"'/proc/here/log'"}});
  ASSERT_EQ(w.run(tiny({}, {"--run-dir", "half", "--fault", "0:error@collective:2"})).code, kFailed);
  expect_told(w.run(tiny({"train.batch=30"}, {"--run-dir", "half"})),
              {{"train.batch=30"},
               kUsage,
               {"half holds an unfinished run of a different job", "train.batch: 60 -> 30",
                "use another --run-dir"}});
  w.write("half/job.toml", "[train\n");
  expect_told(w.run(tiny({}, {"--run-dir", "half"})),
              {{"damaged job.toml"}, kUsage, {"half/job.toml:1:", "not valid TOML"}});
}

TEST(Mistakes, AskingForAFinishedRunAgainIsNone) {
  const Workspace w;
  const Ran first = w.run(tiny({}, {"--run-dir", "done"})), again = w.run(tiny({}, {"--run-dir", "done"}));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(again.err, "");
}

TEST(Mistakes, InWhatAModelStartsFrom) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny({}, {"--run-dir", "done"})).code, 0);
  const auto start = [&](const std::vector<std::string>& sets, const std::string& dir,
                         std::vector<std::string> says, int code) {
    const Mistake m{tiny(sets, {"--run-dir", dir}), code, std::move(says)};
    expect_told(w.run(m.arguments), m);
  };
  start({"model.init_from=nowhere"}, "a", {"model.init_from", "nowhere does not exist", "check the path"},
        kUsage);
  start({"model.init_from=done", "model.name=mlp"}, "b",
        {"model.init_from: done has f32[128] under 'fc1/bias'", "wants f32[256]", "set model.cut_at"},
        kUsage);
  start({"model.init_from=done", "model.cut_at=fc9"}, "c", {"no layer 'fc9'", "conv1, conv2, fc1, fc2"},
        kUsage);
  int damaged = 0;
  for (const auto& step : std::filesystem::directory_iterator(w / "done/checkpoints")) {
    const std::string shard =
        "done/checkpoints/" + step.path().filename().string() + "/tensors-00001-of-00001.safetensors";
    std::string bytes = w.read(shard);
    ASSERT_GT(bytes.size(), 5000U) << shard;
    bytes[5000] = static_cast<char>(bytes[5000] ^ 1);
    w.write(shard, bytes);
    ++damaged;
  }
  ASSERT_GE(damaged, 1);
  start({"model.init_from=done"}, "d",
        {"every checkpoint in done/checkpoints is damaged", "trireme checkpoint verify"}, kUsage);
}

}  // namespace
}  // namespace trireme::system_test
