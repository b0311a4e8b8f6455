#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/graph/random_graph.h"
#include "tests/graph/run_pass.h"
#include "trireme/graph/builder.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/graph/storage.h"

namespace trireme::graph {
namespace {

constexpr DType kF32 = DType::kF32;

// Which node has certainly ended before which starts: by node order, or by strands that wait for each other.
// Floyd-Warshall over strands, on purpose unlike the planner.
struct Order {
  std::vector<std::int32_t> strand, phase;
  std::vector<std::vector<bool>> before;
  bool operator()(std::int32_t a, std::int32_t b) const {
    if (!phase.empty()) {
      const auto pa = phase[static_cast<std::size_t>(a)], pb = phase[static_cast<std::size_t>(b)];
      if (pa != pb) return pa < pb;
    }
    if (strand.empty()) return a < b;
    const auto sa = static_cast<std::size_t>(strand[static_cast<std::size_t>(a)]),
               sb = static_cast<std::size_t>(strand[static_cast<std::size_t>(b)]);
    return sa == sb ? a < b : before[sa][sb];
  }
};

Order make_order(const Graph& g, const MemoryRequest& r) {
  Order order{r.strand, r.phase, {}};
  if (r.strand.empty()) return order;
  const auto n = static_cast<std::size_t>(*std::max_element(r.strand.begin(), r.strand.end())) + 1;
  order.before.assign(n, std::vector<bool>(n, false));
  const auto deps = run_dependencies(g, storage_roots(g, r.pinned));
  for (std::size_t i = 0; i < deps.size(); ++i)
    for (const std::int32_t d : deps[i])
      order.before[static_cast<std::size_t>(r.strand[static_cast<std::size_t>(d)])]
                  [static_cast<std::size_t>(r.strand[i])] = true;
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        if (order.before[i][k] && order.before[k][j]) order.before[i][j] = true;
  return order;
}

struct Block {
  Value value;  // null: a workspace
  std::int64_t begin, end;
  std::int32_t written;
  std::vector<std::int32_t> reads;  // by nodes that run, also through views
  bool to_the_end = false, scratch = false;
};

class Checker {
 public:
  Checker(const Graph& g, const MemoryRequest& r, const MemoryResult& m)
      : g_(g), r_(r), m_(m), roots_(storage_roots(g, r.pinned)), order_(make_order(g, r)) {}

  void run() {
    for (std::int32_t i = 0; i < g_.size(); ++i)
      for (std::int32_t k = 0; k < static_cast<std::int32_t>(g_.node(i).outputs.size()); ++k) add({i, k});
    for (std::size_t i = 0; i < r_.workspace_bytes.size(); ++i)
      if (r_.workspace_bytes[i] > 0) {
        const std::int64_t at = m_.workspace_offsets[i];
        ASSERT_GE(at, 0);
        blocks_.push_back({{}, at, at + r_.workspace_bytes[i], static_cast<std::int32_t>(i), {}});
        blocks_.back().scratch = !r_.phase.empty();
      }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      ASSERT_EQ(blocks_[i].begin % 64, 0);
      ASSERT_LE(blocks_[i].end, blocks_[i].scratch ? m_.plan.scratch_bytes : m_.plan.arena_bytes);
      check_phases(blocks_[i]);
      for (std::size_t j = i + 1; j < blocks_.size(); ++j) check_pair(blocks_[i], blocks_[j]);
    }
  }
  int num_in_place = 0, num_scratch = 0, num_kept = 0;

 private:
  // What is in scratch memory is used by one phase.
  void check_phases(const Block& b) {
    ++(b.scratch ? num_scratch : num_kept);
    if (!b.scratch) return;
    ASSERT_FALSE(r_.phase.empty());
    EXPECT_FALSE(b.to_the_end);
    for (const std::int32_t node : b.reads)
      EXPECT_EQ(r_.phase[static_cast<std::size_t>(node)], r_.phase[static_cast<std::size_t>(b.written)]);
  }

  void add(Value v) {
    const auto& place = m_.plan.places[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
    const Node& n = g_.node(v.node);
    const bool pinned = std::find(r_.pinned.begin(), r_.pinned.end(), v) != r_.pinned.end();
    if (n.def->has(op::kFeed) || pinned) {
      EXPECT_EQ(place.offset, -1);
      EXPECT_TRUE(place.alias_of.is_null());
      return;
    }
    if (roots_[v] != v) {  // a view: where its storage is
      const Value root = roots_[v];
      EXPECT_FALSE(place.alias_of.is_null());
      const auto& shown =
          m_.plan.places[static_cast<std::size_t>(root.node)][static_cast<std::size_t>(root.index)];
      EXPECT_EQ(place.offset, shown.offset);
      EXPECT_EQ(place.scratch, shown.scratch);
      return;
    }
    ASSERT_GE(place.offset, 0);
    Block b{v, place.offset, place.offset + static_cast<std::int64_t>(g_.type(v).num_bytes()), v.node, {}};
    for (std::int32_t i = 0; i < g_.size(); ++i)
      if (!is_free(g_, i, roots_))
        for (const Value in : g_.node(i).inputs)
          if (roots_[in] == v) b.reads.push_back(i);
    for (const auto& [name, out] : g_.outputs()) b.to_the_end = b.to_the_end || roots_[out] == v;
    b.scratch = place.scratch;
    blocks_.push_back(b);
  }

  // All of a's life has ended before b is written. In place: b may be written by a's last reader, at the same
  // address.
  bool ends_before(const Block& a, const Block& b) {
    if (a.to_the_end) return false;
    const auto ended = [&](std::int32_t node) {
      if (order_(node, b.written)) return true;
      if (node != b.written || b.value.is_null() || b.value.index != 0) return false;
      const Node& n = g_.node(node);
      const bool in_place = n.def->has(op::kInPlaceOk) && roots_[n.inputs[0]] == a.value &&
                            a.begin == b.begin && g_.type(n.inputs[0]) == g_.type(b.value);
      num_in_place += in_place;
      return in_place;
    };
    return ended(a.written) && std::all_of(a.reads.begin(), a.reads.end(), ended);
  }

  void check_pair(const Block& a, const Block& b) {
    if (a.scratch != b.scratch) return;
    if (a.begin >= b.end || b.begin >= a.end) return;
    EXPECT_TRUE(ends_before(a, b) || ends_before(b, a))
        << "values %" << a.value.node << " and %" << b.value.node << " overlap while both live";
  }

  const Graph& g_;
  const MemoryRequest& r_;
  const MemoryResult& m_;
  ValueMap<Value> roots_;
  Order order_;
  std::vector<Block> blocks_;
};

MemoryRequest random_request(const Graph& g, std::uint64_t seed, bool strands, bool phases = false) {
  Philox rng(seed, 5);
  MemoryRequest r;
  for (std::int32_t i = 0; i < g.size(); ++i)
    r.workspace_bytes.push_back(rng.next_below(4) == 0 ? rng.next_below(3000) : 0);
  for (const auto& [name, v] : g.outputs())
    if (!g.node(v.node).def->has(op::kFeed) && !g.node(v.node).def->has(op::kMutates) &&
        rng.next_below(3) == 0)
      r.pinned.push_back(v);
  for (std::int32_t i = 0, phase = 0; phases && i < g.size(); ++i) {
    phase += rng.next_below(12) == 0;
    r.phase.push_back(phase);
  }
  if (!strands) return r;
  // A node joins a strand at random among those that keep the strands free of circles: the newest strand of
  // its dependencies' maximum or later.
  const auto deps = run_dependencies(g, storage_roots(g, r.pinned));
  r.strand.assign(static_cast<std::size_t>(g.size()), 0);
  std::int32_t first = 0;
  for (std::size_t i = 0; i < deps.size(); ++i) {
    std::int32_t least = 0;
    for (const std::int32_t d : deps[i]) least = std::max(least, r.strand[static_cast<std::size_t>(d)]);
    if (phases && i > 0 && r.phase[i] != r.phase[i - 1])  // a strand lies in one phase
      first = *std::max_element(r.strand.begin(), r.strand.end()) + 1;
    r.strand[i] = std::max(first, least + static_cast<std::int32_t>(rng.next_below(3)));
  }
  return r;
}

// Plain graphs, and rich ones with fused nodes, which may have several outputs.
class PlanMemoryOfGraphs : public ::testing::TestWithParam<Flavour> {};

TEST_P(PlanMemoryOfGraphs, NeverOverlapsValuesThatLiveAtTheSameTime) {
  int in_place = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomGraph r = random_graph(seed, 40, false, GetParam());
    if (GetParam() != Flavour::kPlain) r.graph = *run_pass("fuse", r.graph);
    ASSERT_TRUE(verify(r.graph).ok()) << verify(r.graph).to_string();
    const MemoryRequest request = random_request(r.graph, seed, seed % 2 == 1);
    Result<MemoryResult> result = plan_memory(r.graph, request);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    Checker checker(r.graph, request, *result);
    checker.run();
    in_place += checker.num_in_place;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(in_place, 50) << "the property must have been put to the test";
}

TEST_P(PlanMemoryOfGraphs, KeepsWhatLivesAcrossPhasesAndPutsTheRestIntoScratchMemory) {
  int scratch = 0, kept = 0, in_place = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomGraph r = random_graph(seed, 40, false, GetParam());
    if (GetParam() != Flavour::kPlain) r.graph = *run_pass("fuse", r.graph);
    MemoryRequest request = random_request(r.graph, seed, seed % 2 == 1, /*phases=*/true);
    const MemoryResult result = *plan_memory(r.graph, request);
    Checker checker(r.graph, request, result);
    checker.run();
    scratch += checker.num_scratch;
    kept += checker.num_kept;
    in_place += checker.num_in_place;
    if (testing::Test::HasFailure()) return;
    // One phase keeps what is fetched, and nothing else.
    std::fill(request.phase.begin(), request.phase.end(), 0);
    request.strand.clear();
    std::int64_t fetched_bytes = 0;
    for (const auto& [name, v] : r.graph.outputs())
      fetched_bytes += static_cast<std::int64_t>((r.graph.type(v).num_bytes() + 63) / 64 * 64);
    EXPECT_LE(plan_memory(r.graph, request)->plan.arena_bytes, fetched_bytes);
  }
  EXPECT_GT(scratch, 1000);
  EXPECT_GT(kept, 1000);
  EXPECT_GT(in_place, 50);
}
INSTANTIATE_TEST_SUITE_P(Flavours, PlanMemoryOfGraphs, ::testing::Values(Flavour::kPlain, Flavour::kRich),
                         [](const auto& info) {
                           return info.param == Flavour::kPlain ? "Plain" : "RichFused";
                         });

TEST(PlanMemory, AChainOfEqualSizesNeedsTwoBlocksAndInPlaceOne) {
  Graph g;
  Builder b(g);
  Value chain = b.input("x", kF32, {16, 16}), plain = b.input("y", kF32, {16, 16});
  for (int i = 0; i < 10; ++i) chain = b.tanh(chain);
  b.output("out", chain);
  EXPECT_EQ(plan_memory(g, {})->plan.arena_bytes, 1024);
  Graph h;
  Builder c(h);
  plain = c.input("y", kF32, {16, 16});
  for (int i = 0; i < 10; ++i) plain = c.matmul(plain, plain);
  c.output("out", plain);
  EXPECT_EQ(plan_memory(h, {})->plan.arena_bytes, 2048);
}

TEST(PlanMemory, ReshapesAndMutatorsAreAliases) {
  Graph g;
  Builder b(g);
  const Value w = b.variable("w", kF32, {4}), view = b.reshape(w, {2, 2}), y = b.tanh(view),
              flat = b.reshape(y, {4});
  const Value changed = b.add_node(op::kAssignAdd, {w, flat});
  b.output("w", changed);
  ASSERT_TRUE(b.status().ok());
  const MemoryPlan plan = plan_memory(g, {})->plan;
  const auto place = [&](Value v) { return plan.places[static_cast<std::size_t>(v.node)][0]; };
  EXPECT_EQ(place(view).alias_of, w);
  EXPECT_EQ(place(view).offset, -1);
  EXPECT_EQ(place(flat).alias_of, y);
  EXPECT_EQ(place(flat).offset, place(y).offset);
  EXPECT_EQ(place(changed).alias_of, w);
  EXPECT_EQ(plan.arena_bytes, 64) << "only y has memory";
}

TEST(PlanMemory, StrandsThatMayRunTogetherShareNothing) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", kF32, {64});
  const Value left = b.sum(b.tanh(x)), right = b.sum(b.sigmoid(x));
  b.output("sum", b.add(left, right));
  MemoryRequest request;
  EXPECT_EQ(plan_memory(g, request)->plan.arena_bytes, 256 + 2 * 64) << "in node order the temporaries share";
  request.strand = {0, 0, 0, 1, 1, 2};
  EXPECT_EQ(plan_memory(g, request)->plan.arena_bytes, 2 * 256 + 2 * 64);
  request.strand_order = {{0, 1}};
  EXPECT_EQ(plan_memory(g, request)->plan.arena_bytes, 256 + 2 * 64)
      << "ordered by the caller they share again";
  request.strand_order = {{0, 1}, {1, 0}};
  EXPECT_EQ(plan_memory(g, request).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace trireme::graph
