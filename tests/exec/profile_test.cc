#include "trireme/exec/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exec/fixtures.h"
#include "trireme/base/json.h"

namespace trireme::exec {
namespace {

using ::testing::HasSubstr;

Graph two_products() {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {64, 64});
  const Value big = b.matmul(x, x);
  b.output("y", b.relu(host(b, big, "late:3")));
  return g;
}

Task<void> profile_two_runs(Runtime& rt, bool phantom, Profile& out) {
  DoublingHost doubling(rt);
  auto e = *make_execution(rt, *compile(two_products(), {}),
                           {.host_ops = {{"allreduce", &doubling}}, .profile = true});
  const Tensor x = *Tensor::allocate(phantom ? phantom_device() : cpu_device(), {kF32, {64, 64}});
  if (!phantom)
    for (float& f : x.values<float>()) f = 0.5F;
  EXPECT_TRUE(e->feed("x", x).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE((co_await e->run()).ok());
  out = *e->profile();
}

const NodeProfile& row(const Profile& p, std::string_view op) {
  for (const NodeProfile& n : p.nodes)
    if (n.op == op) return n;
  ADD_FAILURE() << "no row for " << op;
  return p.nodes[0];
}

TEST(Profile, CountsCallsWorkAndTimeOnARealRuntime) {
  Profile p;
  on_real([&](Runtime& rt) { return profile_two_runs(rt, false, p); });
  ASSERT_EQ(p.nodes.size(), 3U) << "an input runs nothing";
  EXPECT_EQ(p.runs, 2);
  for (const NodeProfile& n : p.nodes) {
    EXPECT_EQ(n.calls, 2) << n.name;
    EXPECT_LE(n.min_ns, n.max_ns);
    EXPECT_LE(n.max_ns, n.total_ns);
    EXPECT_LE(n.begin_ns, n.end_ns);
  }
  const NodeProfile& product = row(p, "matmul");
  EXPECT_EQ(product.flops, 2.0 * 64 * 64 * 64);
  EXPECT_EQ(product.bytes, 3.0 * 64 * 64 * 4) << "each input counts, though both are x";
  EXPECT_FALSE(product.kernel.empty());
  EXPECT_TRUE(row(p, "allreduce").kernel.empty());
  EXPECT_DOUBLE_EQ(product.gflops() * static_cast<double>(product.total_ns), 2 * product.flops);
  EXPECT_LE(row(p, "matmul").end_ns, row(p, "allreduce").begin_ns);
  EXPECT_LE(row(p, "allreduce").end_ns, row(p, "relu").end_ns);
}

TEST(Profile, HasVirtualTimeOnAVirtualRuntime) {
  Profile first, second, phantom;
  const TimeNs end = on_virtual([&](Runtime& rt) { return profile_two_runs(rt, false, first); });
  on_virtual([&](Runtime& rt) { return profile_two_runs(rt, false, second); });
  on_virtual([&](Runtime& rt) { return profile_two_runs(rt, true, phantom); }, true);
  const auto compiled = *compile(two_products(), {});
  EXPECT_EQ(first.run_ns, end);
  EXPECT_EQ(chrome_trace(first), chrome_trace(second)) << "the same run, the same times";
  EXPECT_EQ(chrome_trace(first), chrome_trace(phantom)) << "phantom compute takes the modelled time";
  const NodeProfile& product = row(first, "matmul");
  EXPECT_EQ(product.total_ns,
            2 * cost::compute_time(graph::node_cost(compiled->graph(), 1), cost::MachineModel{}, 1));
}

TEST(Profile, NodesOfOneStrandShareItsVirtualTimeByTheirModelledTimes) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {512, 512});
  b.output("y", b.relu(b.matmul(x, x)));
  const auto compiled = *compile(g, {});
  ASSERT_EQ(compiled->num_strands(), 1);
  Profile p;
  const TimeNs end = on_virtual([&](Runtime& rt) -> Task<void> {
    auto e = *make_execution(rt, compiled, {.profile = true});
    const Tensor zeros = *Tensor::allocate(cpu_device(), {kF32, {512, 512}});
    for (float& f : zeros.values<float>()) f = 0;
    EXPECT_TRUE(e->feed("x", zeros).ok());
    EXPECT_TRUE((co_await e->run()).ok());
    p = *e->profile();
  });
  EXPECT_EQ(p.nodes[0].begin_ns, 0);
  EXPECT_EQ(p.nodes[0].end_ns, p.nodes[1].begin_ns);
  EXPECT_EQ(p.nodes[1].end_ns, end) << "nothing is lost in sharing out";
  EXPECT_GT(p.nodes[0].total_ns, p.nodes[1].total_ns);
  EXPECT_GT(p.nodes[1].total_ns, 0);
}

TEST(Profile, IsRefusedWhenNobodyAskedForIt) {
  on_virtual([](Runtime& rt) -> Task<void> {
    Graph g;
    Builder b(g);
    b.output("y", b.fill(1, kF32, {2}));
    auto e = *make_execution(rt, *compile(g, {}), {});
    EXPECT_THAT(e->profile().status().message(), HasSubstr("ExecutionOptions::profile"));
    co_return;
  });
}

Profile handmade() {
  Profile p;
  p.runs = 4;
  p.run_ns = 10'000'000;
  p.nodes.push_back(
      {"a/relu", "relu", "vector", 0, 4, 1'000'000, 200'000, 300'000, 5'000, 255'000, 1e6, 4e6});
  p.nodes.push_back(
      {"a/matmul", "matmul", "blas", 1, 4, 8'000'000, 1'000'000, 3'000'000, 255'000, 2'255'000, 4e8, 1e6});
  p.nodes.push_back(
      {"b/relu", "relu", "vector", 1, 4, 1'000'000, 250'000, 250'000, 2'255'000, 2'505'000, 1e6, 4e6});
  return p;
}

TEST(Profile, TextIsSortedByTimeAndSumsUpByOp) {
  const std::string text = handmade().to_text();
  EXPECT_THAT(text, HasSubstr("4 runs, 10.000 ms in runs, 10.000 ms in 3 nodes"));
  const std::size_t product = text.find("matmul, blas, a/matmul"), relu = text.find("relu, vector, a/relu");
  ASSERT_NE(product, std::string::npos);
  ASSERT_NE(relu, std::string::npos);
  EXPECT_LT(product, relu);
  EXPECT_THAT(text,
              HasSubstr("8.000   80.0        4     2000.00    200.00     0.50  matmul, blas, a/matmul"));
  EXPECT_THAT(text, HasSubstr("2.000   20.0        8      250.00      4.00    16.00  relu\n")) << text;
}

TEST(ChromeTrace, HasACompleteEventPerNode) {
  const Json trace = *parse_json(chrome_trace(handmade(), "rank 3", 3), "trace");
  int complete = 0;
  for (const Json& e : trace.at("traceEvents")) {
    EXPECT_EQ(e.at("pid"), 3);
    if (e.at("ph") == "M" && e.at("name") == "process_name") {
      EXPECT_EQ(e.at("args").at("name"), "rank 3");
    }
    if (e.at("ph") != "X") continue;
    ++complete;
    if (e.at("name") != "a/matmul") continue;
    EXPECT_EQ(e.at("ts"), 255.0);
    EXPECT_EQ(e.at("dur"), 2000.0);
    EXPECT_EQ(e.at("tid"), 1);
    EXPECT_EQ(e.at("cat"), "matmul");
  }
  EXPECT_EQ(complete, 3);
}

}  // namespace
}  // namespace trireme::exec
