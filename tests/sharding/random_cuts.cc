#include "tests/sharding/random_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/random_net.h"
#include "tests/sharding/positions.h"
#include "trireme/parallel/shard/node_options.h"

namespace trireme::parallel::testing {
namespace {

constexpr int kClasses = 4;  // of random nets; their tokens are below it too

const char* const kMeshes[] = {"model=2", "model=3", "outer=2,inner=2", "outer=3,inner=2", "outer=2,inner=3"};

// A cut for some variables and some other nodes; what nobody pinned is free. `pinned`: of nodes in 16.
class RandomPins {
 public:
  RandomPins(std::uint64_t seed, std::uint32_t pinned) : rng_(seed, 57), pinned_(pinned) {}

  Status restrict(const graph::Graph& graph, ShardRequest& request) {
    const NodeOptions options(graph, request.axis);
    std::map<const graph::Node*, op::LayoutOption> pins;
    for (std::int32_t id = 0; id < graph.size(); ++id) {
      const auto& all = options.of(id);
      if (all.size() > 1 && rng_.next_below(16) < pinned_)
        pins.emplace(&graph.node(id), all[rng_.next_below(static_cast<std::uint32_t>(all.size()))]);
    }
    request.allowed = [pins](const graph::Node& node, const op::LayoutOption& option) {
      const auto pin = pins.find(&node);
      return pin == pins.end() ||
             (pin->second.inputs == option.inputs && pin->second.outputs == option.outputs);
    };
    return {};
  }

 private:
  Philox rng_;
  const std::uint32_t pinned_;
};

// With fewer pins where they contradict each other.
Result<CutOverMesh> cut_at_random(const graph::Graph& graph, const Mesh& mesh, std::uint64_t seed) {
  Result<CutOverMesh> cut = error(Code::kInvalid, "not tried");
  for (const std::uint32_t pinned : {8, 4, 2, 1, 0}) {
    if (cut.ok()) break;
    RandomPins pins(seed, pinned);
    cut = cut_over(graph, mesh, [&](const graph::Graph& g, ShardRequest& r) { return pins.restrict(g, r); });
  }
  return cut;
}

bool exchanges(const CutOverMesh& cut) {
  const graph::Graph& g = cut.graphs[0];
  for (std::int32_t id = 0; id < g.size(); ++id)
    if (g.node(id).def->family == "comm") return true;
  return false;
}

}  // namespace

void expect_random_cuts_give_the_whole(std::uint64_t first_seed, int num_seeds) {
  int exchanging = 0;
  for (int i = 0; i < num_seeds; ++i) {
    const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(i);
    const char* mesh = kMeshes[seed % std::size(kMeshes)];
    SCOPED_TRACE(fmt::format("seed {} over {}", seed, mesh));
    const auto graph = in_f64(graph::RandomNetMaker(seed).make(DType::kF32).graph);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const Tensors fed = made_up(*graph, kClasses);
    const auto expected = run_whole(*graph, fed);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    const auto cut = cut_at_random(*graph, *parse_mesh(mesh), seed);
    ASSERT_TRUE(cut.ok()) << cut.status().message();
    exchanging += exchanges(*cut) ? 1 : 0;
    const auto got = run_ranks(*cut, fed);
    ASSERT_TRUE(got.ok()) << got.status().message();
    expect_ranks_give(*cut, *got, *expected);
  }
  EXPECT_GE(3 * exchanging, 2 * num_seeds) << "most nets should be cut";
}

}  // namespace trireme::parallel::testing
