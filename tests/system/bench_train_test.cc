// `trireme bench train` and `bench kernels` as a user calls them: the rows they promise, a peer that speaks
// the lines, mistakes. No timing is asserted.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "tests/system/binary.h"

namespace trireme::system_test {
namespace {

Json rows_of(const Ran& ran) {
  EXPECT_EQ(ran.code, 0) << ran.err;
  const Result<Json> report = parse_json(ran.out, "standard output");
  EXPECT_TRUE(report.ok()) << ran.out;
  return report.ok() ? report->value("rows", Json::array()) : Json::array();
}

TEST(BenchTrain, GivesARowWithTheProfileAndTheKernelsOfAStep) {
  const Workspace w;
  const Json rows = rows_of(w.run({"bench", "train", "--quick", "--workloads", "lenet", "--dtype", "f32",
                                   "--threads", "1", "--profile", "--json"}));
  ASSERT_EQ(rows.size(), 1U);
  const Json& row = rows[0];
  for (const char* key : {"workload", "device", "dtype", "threads", "ours_ms", "torch_eager_ms",
                          "torch_compile_ms", "ratio", "ceiling", "ours_peak_bytes", "torch_peak_bytes"})
    EXPECT_TRUE(row.contains(key)) << key;
  EXPECT_EQ(row["workload"], "lenet");
  EXPECT_GT(row["ours_ms"], 0);
  EXPECT_GT(row["ours_peak_bytes"], 0);
  EXPECT_TRUE(row["torch_eager_ms"].is_null());
  EXPECT_GT(row["kernels"]["least_ms"], 0);
  std::set<std::string> ops;  // "conv2d[nhwc,nhwc>nhwc]" is one with the channels last
  for (const Json& kernel : row["kernels"]["kernels"]) {
    const std::string op = kernel["op"];
    ops.insert(op.substr(0, op.find('[')));
  }
  for (const char* op : {"conv2d", "conv2d_filter_grad", "conv2d_input_grad", "matmul", "max_pool2d_places"})
    EXPECT_TRUE(ops.contains(op)) << op;
  EXPECT_GT(row["profile"]["kernel_ms"], 0);
  EXPECT_LE(row["profile"]["kernel_ms"], row["profile"]["step_ms"]);
}

// Answers as bench/peers/torch_steps.py does, with times made up: eager 40 ms, compiled 20 ms.
constexpr const char* kPeer = R"(import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect(sys.argv[-1])
def say(line):
    data = line.encode() + b"\n"
    s.sendall(struct.pack("<II", 1, len(data)) + data)
ms = 20 if sys.argv[2] == "compile" else 40
say("ready made-up")
while True:
    head = s.recv(8, socket.MSG_WAITALL)
    if len(head) < 8: break
    words = s.recv(struct.unpack("<II", head)[1], socket.MSG_WAITALL).decode().split()
    if words[0] == "quit": break
    if words[0] == "memory": say("memory %d" % (ms * 1000))
    else: say(" ".join(["times"] + [str(ms * 1000000)] * int(words[1])))
)";

TEST(BenchTrain, ComparesWithAPeerInAlternatingRounds) {
  const Workspace w;
  w.write("bench_torch_steps.py", kPeer);
  w.write("python", "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\nexec python3 \"$@\"\n");
  ASSERT_EQ(::chmod((w / "python").c_str(), 0755), 0);
  const Json rows = rows_of(w.run({"bench", "train", "--quick", "--workloads", "lenet", "--dtype", "f32",
                                   "--threads", "1", "--no-ceiling", "--against", "torch", "--python",
                                   w / "python", "--peers", w.path(), "--rounds", "2", "--json"}));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["torch_eager_ms"], 40.0);
  EXPECT_EQ(rows[0]["torch_compile_ms"], 20.0);
  EXPECT_EQ(rows[0]["torch_peak_bytes"], 20000);
  EXPECT_EQ(rows[0]["torch_version"], "made-up");
  EXPECT_EQ(rows[0]["ours"]["rounds_ms"].size(), 2U);
  EXPECT_NEAR(rows[0]["ratio"].get<double>() * rows[0]["ours_ms"].get<double>(), 20.0, 1e-9);
}

TEST(BenchTrain, MistakesAreNamed) {
  const Workspace w;
  const Ran none = w.run({"bench", "train", "--against", "torch", "--python", "no-such-python"});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("no-such-python"), std::string::npos) << none.err;
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"bench", "train", "--workloads", "vgg"}, "vgg"},
      {{"bench", "train", "--dtype", "f8"}, "f8"},
      {{"bench", "train", "--against", "jax"}, "jax"},
      {{"bench", "kernels", "--threads", "0"}, "threads"},
  };
  for (const auto& [args, word] : cases) {
    const Ran ran = w.run(args);
    EXPECT_EQ(ran.code, 2) << word;
    EXPECT_NE(ran.err.find(word), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace trireme::system_test
