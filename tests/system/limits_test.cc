// What the world refuses: memory, descriptors, a full disk behind standard output; and names that are not
// UTF-8. Every command ends with a plain error, never by a signal.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

namespace fs = std::filesystem;

// Runs trireme in a shell that does `before` first and `after` behind the command line.
Ran in_shell(const Workspace& w, const std::string& before, const std::vector<std::string>& arguments,
             const std::string& after = "") {
  std::vector<std::string> argv{"/bin/sh", "-c", before + "\"$@\" " + after, "sh", binary_path()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return w.run_program(argv);
}

std::vector<std::string> tiny(const std::string& run_dir, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args{"train",         "--quiet",       "--run-dir",           run_dir,
                                "--set",         "train.steps=2", "data.limit_train=60", "data.limit_test=20",
                                "model.name=mlp"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

// Classes and a file that Windows wrote: Latin-1.
void write_latin1(const Workspace& w, const std::string& name) {
  std::string text = "a,b,kind\n";
  for (int i = 0; i < 40; ++i)
    text += std::to_string(i % 7) + "," + std::to_string(i % 5) + (i % 2 == 0 ? ",caf\xe9\n" : ",th\xe9\n");
  w.write(name, text);
}

std::vector<std::string> on_csv(const std::string& run_dir, const std::string& path) {
  return {"train",         "--quiet",           "--run-dir",      run_dir,          "--set",
          "data.kind=csv", "data.path=" + path, "model.name=mlp", "train.epochs=1", "train.batch=8"};
}

void expect_plain(const Ran& ran, int code, const std::string& says) {
  EXPECT_EQ(ran.signal, 0) << ran.err;
  EXPECT_EQ(ran.code, code) << ran.err;
  const std::size_t first = ran.err.find("error: ");
  EXPECT_NE(first, std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find(says, first == std::string::npos ? 0 : first), std::string::npos)
      << "lacks: " << says << "\n"
      << ran.err;
}

TEST(Limits, ClassesThatAreNotUtf8AreEscapedInJson) {
  const Workspace w;
  write_latin1(w, "latin1.csv");
  ASSERT_EQ(w.run(on_csv("run", "latin1.csv")).code, 0);
  const Ran eval = w.run({"eval", "run", "--json"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.out.find("\"caf\\\\xe9\""), std::string::npos) << eval.out;
  EXPECT_TRUE(parse_json(eval.out, "eval").ok());
  const Ran predict = w.run({"predict", "run", "--json", "--samples", "3"});
  EXPECT_EQ(predict.code, 0) << predict.err;
  EXPECT_TRUE(parse_json(predict.out, "predict").ok());
}

TEST(Limits, FoldersAndInputsThatAreNotUtf8Work) {
  const Workspace w;
  write_latin1(w, "data.csv");
  ASSERT_EQ(w.run(on_csv("caf\xe9", "data.csv")).code, 0);
  const Ran eval = w.run({"eval", "caf\xe9", "--json"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(parse_json(eval.out, "eval").ok()) << eval.out;
  w.write("th\xe9.csv", "a,b\n1,2\n3,4\n");
  const Ran predict = w.run({"predict", "caf\xe9", "--input", "th\xe9.csv", "--json"});
  EXPECT_EQ(predict.code, 0) << predict.err;
  EXPECT_TRUE(parse_json(predict.out, "predict").ok()) << predict.out;
}

TEST(Limits, RanksOfALauncherAgreeOnAFolderThatIsNotUtf8) {
  const Workspace w;
  const std::string variables =
      "for R in 0 1; do export TRIREME_RANK=$R TRIREME_WORLD=2 TRIREME_RENDEZVOUS=.; ";
  const Ran ran = in_shell(w, variables, tiny("caf\xe9", {"train.logical_shards=2"}), "& done; wait");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(w.json("caf\xe9/summary.json").value("finished", false)) << ran.err;
  EXPECT_FALSE(fs::exists(w / "caf\\xe9"));
}

TEST(Limits, JobsTakeNamesAndPathsInUtf8Alone) {
  const Workspace w;
  write_latin1(w, "caf\xe9.csv");
  const Ran name = w.run(tiny("run", {"name=\xe9"}));
  expect_plain(name, 2, "key 'name': got '\\xe9', expected UTF-8");
  const Ran path = w.run(on_csv("run", "caf\xe9.csv"));
  expect_plain(path, 2, "key 'data.path': got 'caf\\xe9.csv', expected UTF-8");
  EXPECT_NE(path.err.find("ln -s"), std::string::npos) << path.err;
  EXPECT_FALSE(fs::exists(w / "run")) << "before anything is trained";
  fs::create_symlink("caf\xe9.csv", w / "cafe.csv");
  EXPECT_EQ(w.run(on_csv("run", "cafe.csv")).code, 0);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they reserve more than any limit leaves
TEST(Limits, TooLittleMemoryIsAnError) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny("run")).code, 0);
  for (const int kib : {60'000, 100'000, 120'000}) {
    const std::string limit = "ulimit -v " + std::to_string(kib) + "; ";
    for (const auto& args :
         {tiny("r" + std::to_string(kib)), std::vector<std::string>{"eval", "run", "--quiet"}}) {
      const Ran ran = in_shell(w, limit + "exec ", args);
      SCOPED_TRACE(limit + args[0] + "\n" + ran.err);
      EXPECT_EQ(ran.signal, 0);
      EXPECT_TRUE(ran.code == 0 || ran.err.find("error: ") != std::string::npos);
    }
  }
}
#endif

TEST(Limits, TooFewDescriptorsAreNamed) {
  const Workspace w;
  int named = 0;
  for (const char* most : {"4", "5", "6", "7", "8", "9", "12"}) {
    const Ran ran = in_shell(w, std::string("ulimit -n ") + most + "; exec ", tiny("run"));
    EXPECT_EQ(ran.signal, 0) << most << ran.err;
    if (ran.code == 127) continue;  // the system could not load the libraries: no word of ours is reached
    named += ran.err.find("ulimit -n") != std::string::npos;
    EXPECT_TRUE(ran.code == 0 || ran.err.find("ulimit -n") != std::string::npos) << most << ran.err;
  }
  EXPECT_GT(named, 0);
}

TEST(Limits, WorkersWithTooFewDescriptorsNameThem) {
  const Workspace w;
  const Ran ran = in_shell(w, "ulimit -n 16; exec ", tiny("run", {"--workers", "3", "--transport", "shm"}));
  expect_plain(ran, 1, "ulimit -n");
  EXPECT_EQ(ran.err.find("30.0"), std::string::npos) << "nobody waited that long: " << ran.err;
}

TEST(Limits, StandardOutputThatCannotBeWrittenIsAnError) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny("run")).code, 0);
  for (const std::vector<std::string>& args : {std::vector<std::string>{"version"},
                                               {"--help"},
                                               {"eval", "run", "--json"},
                                               {"checkpoint", "info", "run"},
                                               {"inspect", "ops"},
                                               {"predict", "run", "--samples", "2"},
                                               tiny("run", {"--json"}),
                                               tiny("other")}) {
    SCOPED_TRACE(args[0]);
    expect_plain(in_shell(w, "", args, "> /dev/full"), 1,
                 "cannot write standard output: No space left on device");
  }
  expect_plain(in_shell(w, "", {"version"}, ">&-"), 1, "cannot write standard output");
  EXPECT_EQ(in_shell(w, "", tiny("third", {"--json"}), "2>&- < /dev/null").code, 0)
      << "a closed stderr is nobody's loss";
}

TEST(Limits, ResultsGoThroughLinksAndIntoDevices) {
  const Workspace w;
  ASSERT_EQ(w.run(tiny("run")).code, 0);
  w.write("target.csv", "old");
  fs::create_symlink("target.csv", w / "link.csv");
  const std::vector<std::string> args{"predict", "run", "--samples", "2", "--csv", "link.csv"};
  const Ran ran = w.run(args);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(fs::is_symlink(w / "link.csv"));
  const std::string table = w.read("target.csv");
  EXPECT_NE(table, "old");
  const Ran printed = in_shell(w, "", {"predict", "run", "--samples", "2", "--csv", "/dev/stdout"}, "| cat");
  EXPECT_EQ(printed.out, table);
  fs::create_symlink("picture.png", w / "link.png");
  const Ran filters = w.run({"predict", "run", "--samples", "2", "--filters", "link.png"});
  ASSERT_EQ(filters.code, 0) << filters.err;
  EXPECT_TRUE(fs::is_symlink(w / "link.png"));
  EXPECT_TRUE(fs::is_regular_file(w / "picture.png"));
}

TEST(Limits, OutputsAreCheckedBeforeTheWork) {
  const Workspace w;
  const Ran calibrate = w.run({"calibrate", "--quick", "--transport", "inproc", "--out", "nodir/x.json"});
  expect_plain(calibrate, 1, "cannot write 'nodir/x.json': No such file or directory");
  // There is no run: what is told first was looked at first.
  const Ran predict = w.run({"predict", "no-run", "--csv", "nodir/x.csv"});
  expect_plain(predict, 1, "cannot write 'nodir/x.csv': No such file or directory");
}

}  // namespace
}  // namespace trireme::system_test
