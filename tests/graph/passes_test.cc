// Every row of the pass table on its own against what passes promise, on random graphs.
#include "trireme/graph/pass/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/graph/random_graph.h"
#include "tests/graph/same_outputs.h"
#include "trireme/graph/builder.h"

namespace trireme::graph {
namespace {

constexpr int kSeeds = 60;

std::int64_t arena(const Graph& g) { return plan_memory(g, {})->plan.arena_bytes; }

// Options under which every pass has something to do.
PassOptions options_for(const Graph& g) {
  PassOptions o;
  o.memory_limit_bytes = std::max<std::int64_t>(arena(g) - 64, 1);
  return o;
}

// Streams of random nodes, sorted.
std::multiset<std::int64_t> streams(const Graph& g) {
  std::multiset<std::int64_t> found;
  for (std::int32_t i = 0; i < g.size(); ++i)
    if (g.node(i).def->has(op::kRandom)) found.insert(g.node(i).attrs.get_int("stream"));
  return found;
}

std::vector<std::string> variable_names(const Graph& g) {
  std::vector<std::string> names;
  for (const auto& [name, v] : g.variables()) names.push_back(name);
  return names;
}

// Names of mutating and host nodes in node order.
std::vector<std::string> effects(const Graph& g) {
  std::vector<std::string> names;
  for (std::int32_t i = 0; i < g.size(); ++i)
    if (g.node(i).def->has(op::kMutates) || g.node(i).def->has(op::kHostOp)) names.push_back(g.node(i).name);
  return names;
}

double tolerance_of(const PassRow& row) {
  if (row.exactness == Exactness::kExact) return 0;
  return row.name == "lower_precision" ? 0.15 : 1e-5;
}

class EveryPass : public ::testing::TestWithParam<int> {
 protected:
  const PassRow& row() const { return pass_table()[static_cast<std::size_t>(GetParam())]; }
  // The pass on a graph; a memory limit that cannot be met leaves the graph.
  Graph run(const Graph& g, const PassOptions& o) const {
    Result<Graph> after = row().run(g, o);
    if (!after.ok() && after.status().code() == Code::kExhausted) return g;
    TR_CHECK(after.ok(), "{}: {}", row().name, after.status().to_string());
    return *after;
  }
};

TEST_P(EveryPass, KeepsResultsNamesStreamsAndEffectsOnRandomGraphs) {
  bool changed = false;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    const RandomGraph r = random_graph(seed, 40, /*with_hosts=*/seed % 2 == 1, Flavour::kRich);
    ASSERT_TRUE(verify(r.graph).ok()) << verify(r.graph).to_string();
    const PassOptions o = options_for(r.graph);
    const Graph after = run(r.graph, o);
    const std::string what = fmt::format("pass {}, seed {}", row().name, seed);
    ASSERT_TRUE(verify(after).ok()) << what << ": " << verify(after).to_string() << "\n" << after.to_text();
    expect_same_results(after, r.graph, r.feeds, tolerance_of(row()), what);
    if (HasFatalFailure()) return;
    ASSERT_EQ(run(after, o).to_text(), after.to_text()) << what << " run twice";
    if (row().name != "dead_code") {
      EXPECT_EQ(variable_names(after), variable_names(r.graph)) << what;
      EXPECT_EQ(effects(after), effects(r.graph)) << what;
      std::multiset<std::int64_t> now = streams(after), before = streams(r.graph);
      EXPECT_TRUE(std::includes(now.begin(), now.end(), before.begin(), before.end())) << what;
      EXPECT_TRUE(row().name == "recompute" || now == before) << what;
    }
    changed = changed || after.to_text() != r.graph.to_text();
  }
  // These need a template, receives, 16-bit values, images, norms, attention, recurrence and losses.
  const std::set<std::string_view> nothing_to_do{
      "specialise",     "schedule_receives", "absorb_casts",  "channels_last",     "round_in_products",
      "pack_attention", "join_losses",       "bias_products", "widen_products",    "join_norm_sums",
      "join_residuals", "join_gelu_grads",   "join_casts",    "mask_pooled",       "join_bias_grads",
      "fuse_norms",     "narrow_norms",      "keep_places",   "keep_gates",        "narrow_copies",
      "lower_gates",    "cancel_transposes", "keep_reserves", "bias_convolutions", "lower_recurrences"};
  EXPECT_TRUE(changed || nothing_to_do.contains(row().name)) << row().name << " never did anything";
}

TEST_P(EveryPass, KeepsGradientsOnRandomGraphs) {
  if (row().name == "lower_precision") return;  // comes before gradients
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    RandomGraph r = random_graph(seed, 25, /*with_hosts=*/false, Flavour::kSmooth);
    Builder b(r.graph);
    const Value loss = b.sum(b.tanh(*r.graph.find_output("last")));
    std::vector<Value> wrt;
    for (const auto& [name, v] : r.graph.variables()) wrt.push_back(v);
    const auto grads = add_gradients(r.graph, loss, wrt);
    ASSERT_TRUE(grads.ok()) << grads.status().to_string();
    for (std::size_t i = 0; i < wrt.size(); ++i) b.output(fmt::format("d{}", i), (*grads)[i]);
    const Graph after = run(r.graph, options_for(r.graph));
    const std::string what = fmt::format("pass {}, seed {}", row().name, seed);
    ASSERT_TRUE(verify(after).ok()) << what << ": " << verify(after).to_string();
    expect_same_results(after, r.graph, r.feeds, tolerance_of(row()), what);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryPass, ::testing::Range(0, static_cast<int>(pass_table().size())),
                         [](const auto& info) {
                           return std::string(pass_table()[static_cast<std::size_t>(info.param)].name);
                         });

TEST(PassTable, NamesAreUniqueAndRowsAreWhole) {
  std::set<std::string_view> names;
  for (const PassRow& row : pass_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(row.doc.size(), 10U) << row.name;
    EXPECT_EQ(row.doc.back(), '.') << row.name;
    EXPECT_EQ(find_pass(row.name), &row);
  }
  EXPECT_EQ(find_pass("no_such_pass"), nullptr);
}

}  // namespace
}  // namespace trireme::graph
