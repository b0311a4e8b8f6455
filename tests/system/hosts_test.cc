// `trireme train --hosts` with a stand-in for ssh that runs the command line on this host: three loopback
// addresses, TCP between the ranks.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

std::vector<std::string> on_hosts(const Workspace& w, const std::string& run_dir,
                                  const std::vector<std::string>& more) {
  std::vector<std::string> args{"train", "--run-dir", run_dir, "--hosts", "hosts", "--ssh", w / "fake_ssh"};
  for (const char* set :
       {"train.logical_shards=3", "train.batch=60", "train.steps=8", "train.optimizer.lr=0.03",
        "data.limit_train=600", "data.limit_test=100", "model.name=mlp"})
    args.insert(args.end(), {"--set", set});
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

void prepare(const Workspace& w) {
  w.write("hosts", "127.0.0.1\n127.0.0.2  # two addresses of one machine\n127.0.0.3\n");
  w.write("fake_ssh",
          "#!/bin/sh\ntest \"$1\" != gone || { echo 'ssh: Could not resolve hostname gone' >&2; exit 255; }\n"
          "echo \"$1\" >> '" +
              w.path() + "/reached'; shift; cd /; exec sh -c \"$*\"\n");
  std::filesystem::permissions(w / "fake_ssh", std::filesystem::perms::owner_all);
}

TEST(Hosts, ThreeRanksEndInTheHashOfOneWorker) {
  const Workspace w;
  prepare(w);
  std::vector<std::string> alone = on_hosts(w, "alone", {"--quiet"});
  alone.erase(alone.begin() + 3, alone.begin() + 7);
  ASSERT_EQ(w.run(alone).code, 0);
  const Ran ran = w.run(on_hosts(w, "run", {}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json summary = w.json("run/summary.json");
  EXPECT_EQ(summary.value("workers", 0), 3) << "as many as there are slots";
  EXPECT_EQ(summary.value("transport", ""), "tcp");
  EXPECT_EQ(summary.value("parameters_sha256", "-"),
            w.json("alone/summary.json").value("parameters_sha256", ""));
  EXPECT_NE(ran.out.find("Test accuracy "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("3 workers, bsp over tcp"), std::string::npos) << ran.out;
  for (const char* host : {"127.0.0.1\n", "127.0.0.2\n", "127.0.0.3\n"})
    EXPECT_NE(w.read("reached").find(host), std::string::npos) << host;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Hosts, AHostIsReachedOnceForAllItsRanks) {
  const Workspace w;
  prepare(w);
  w.write("hosts", "127.0.0.1 slots=2\n127.0.0.2\n");
  const Ran ran = w.run(on_hosts(w, "run", {"--json"}));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string reached = w.read("reached");
  EXPECT_EQ(count(reached, "127.0.0.1\n"), 1U) << reached;
  EXPECT_EQ(count(reached, "127.0.0.2\n"), 1U) << reached;
  const Result<Json> summary = parse_json(ran.out, "standard output");
  ASSERT_TRUE(summary.ok()) << ran.out;
  EXPECT_EQ(summary->value("workers", 0), 3);
  EXPECT_EQ(ran.out, w.read("run/summary.json")) << "the output of rank 0 arrives as it was";
  EXPECT_NE(ran.err.find("Test accuracy "), std::string::npos) << ran.err;
}

TEST(Hosts, ARankThatDiesBesideOthersOfItsHostIsNamed) {
  const Workspace w;
  prepare(w);
  w.write("hosts", "127.0.0.1 slots=3\n");
  const Ran ran = w.run(on_hosts(w, "run", {"--quiet", "--fault", "1:kill@collective:9"}));
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("rank 1 on 127.0.0.1: died by signal 9"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("rank 2 on 127.0.0.1: "), std::string::npos) << ran.err;
}

TEST(Hosts, AHostThatCannotBeReachedIsNamed) {
  const Workspace w;
  prepare(w);
  w.write("hosts", "127.0.0.1\ngone\n");
  const Ran ran = w.run(on_hosts(w, "run", {"--quiet"}));
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("rank 1 on gone: "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("could not reach the host: ssh: Could not resolve hostname gone; try: "),
            std::string::npos)
      << ran.err;
  w.write("hosts", "127.0.0.1\ngone slots=2\n");
  const Ran two = w.run(on_hosts(w, "run", {"--quiet"}));
  EXPECT_NE(two.err.find("rank 1, 2 on gone: "), std::string::npos) << two.err;
}

TEST(Hosts, AConnectionThatSshdDroppedIsMadeAgain) {
  const Workspace w;
  prepare(w);
  w.write(
      "busy_ssh",
      "#!/bin/sh\ntest \"$1\" != 127.0.0.3 || mkdir '" + w.path() +
          "/tried' 2>/dev/null && test \"$1\" = 127.0.0.3 && { echo 'kex_exchange_identification: Connection "
          "closed by remote host' >&2; exit 255; }\nexec '" +
          w.path() + "/fake_ssh' \"$@\"\n");
  std::filesystem::permissions(w / "busy_ssh", std::filesystem::perms::owner_all);
  std::vector<std::string> args = on_hosts(w, "run", {"--quiet"});
  args[6] = w / "busy_ssh";
  const Ran ran = w.run(args);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(w / "tried")) << "one connection was dropped";
  EXPECT_TRUE(w.json("run/summary.json").value("finished", false));
}

TEST(Hosts, ABinaryThatIsNotThereIsNamed) {
  const Workspace w;
  prepare(w);
  const Ran ran = w.run(on_hosts(w, "run", {"--quiet", "--remote-binary", "/no/trireme"}));
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.err.find("rank 1 on 127.0.0.2: '/no/trireme' does not run there"), std::string::npos)
      << ran.err;
  EXPECT_NE(ran.err.find("--remote-binary PATH"), std::string::npos) << ran.err;
}

TEST(Hosts, AnInterruptSavesAndStopsOnAllHostsAndTheSameCommandGoesOn) {
  const Workspace w;
  prepare(w);
  const std::vector<std::string> args =
      on_hosts(w, "run", {"--quiet", "--set", "train.steps=600", "train.checkpoint_steps=2"});
  const Ran stopped =
      w.run_until_file(args, "run/checkpoints/step-000000004/manifest.json",
                       [](runtime::Process& p) { (void)p.signal(runtime::ProcessSignal::kInterrupt); });
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  const Json summary = w.json("run/summary.json");
  EXPECT_FALSE(summary.value("finished", true));
  EXPECT_LT(summary.value("steps", 600), 600);
  const Ran again = w.run(args);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(w.json("run/summary.json").value("steps", 0), 600);
}

}  // namespace
}  // namespace trireme::system_test
