// Weights of a rank that holds pieces of the model: memory of the pieces' size, values of the whole's
// elements, and a state that names what the pieces are of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/state/cluster.h"
#include "trireme/engine/weights.h"
#include "trireme/prepare/laid_out.h"

namespace trireme::engine {
namespace {

using parallel::Layout;
using runtime::Runtime;
using runtime::Task;
using testing::Cluster;
using ::testing::HasSubstr;

struct CutParameter {
  const char* name;
  Shape whole;
  const char* layout;  // over data, model
};
const CutParameter kCutParameters[] = {{"conv/weight", {4, 3}, "replicate replicate"},
                                       {"fc/bias", {7}, "replicate shard(0)"},
                                       {"fc/weight", {5, 7}, "replicate shard(1)"},
                                       {"out/weight", {7, 3}, "replicate shard(0)"},
                                       {"qkv/weight", {2, 12}, "replicate shard(1,3)"}};
constexpr std::uint64_t kSeed = 42;

model::Parameter parameter_of(const CutParameter& p) { return {p.name, {DType::kF32, p.whole}, 0.5}; }

// What `prepare` would give rank `rank` of a mesh data=2, model=2 with momentum.
prepare::Prepared cut_model(int rank) {
  prepare::Prepared out;
  out.plan.logical_shards = 2;
  out.plan.tiles = 2;
  out.plan.owners = {{0, 1}, {1, 1}};
  out.plan.tile_owners = {{0, 1}, {1, 1}};
  std::vector<plan::ParameterSize> sizes;
  for (const CutParameter& p : kCutParameters) {
    const Layout layout = *Layout::parse(p.layout);
    out.plan.layouts[p.name] = layout;
    out.wholes[p.name] = {DType::kF32, p.whole};
    model::Parameter local = parameter_of(p);
    local.type.shape = local_shape(layout, out.plan.mesh(), rank, p.whole);
    sizes.push_back({p.name, local.type.shape.num_elems()});
    model::StateVariable velocity;
    velocity.name = std::string(p.name) + "/velocity";
    velocity.parameter = p.name;
    velocity.type = local.type;
    out.states.push_back(velocity);
    out.parameters.push_back(std::move(local));
  }
  out.plan.buckets = plan::make_buckets(sizes, 1 << 20, "fixed-tree");
  return out;
}

Task<Status> check_rank(Runtime& rt, int rank) {
  const prepare::Prepared prepared = cut_model(rank);
  GpuSide gpu;
  WeightsOptions options;
  options.rank = rank;
  TR_CO_ASSIGN_OR_RETURN(const auto weights, Weights::make(rt, prepared, gpu, std::move(options)));
  TR_CO_RETURN_IF_ERROR(co_await weights->initialise(kSeed));
  TR_CO_ASSIGN_OR_RETURN(const io::NamedTensors state, weights->named(true));
  TR_CO_ASSIGN_OR_RETURN(const HeldState held, weights->held(state));
  io::NamedTensors expected;
  for (const auto& [name, memory] : state) {
    const prepare::LaidOut out = prepare::laid_out(prepared, name, memory.type());
    EXPECT_EQ(memory.shape(), local_shape(out.layout, prepared.plan.mesh(), rank, out.whole.shape)) << name;
    expected.emplace_back(name, *Tensor::allocate(cpu_device(), out.whole));
    const std::span<float> values = expected.back().second.values<float>();
    std::fill(values.begin(), values.end(), 0.0F);
    for (const CutParameter& p : kCutParameters)
      if (p.name == name) model::initialise(parameter_of(p), kSeed, values);
  }
  EXPECT_EQ(held.size(), 2 * std::size(kCutParameters));
  testing::expect_part(held, expected);
  co_return Status();
}

TEST(Weights, OfARankAreItsPiecesWithTheValuesOfTheWhole) {
  Cluster cluster;
  cluster.run_well({0, 0, 0, 0},
                   [](Runtime& rt, comm::Group& group) { return check_rank(rt, group.rank()); });
}

Task<Status> hold_another_plan(Runtime& rt, comm::Group&) {
  prepare::Prepared prepared = cut_model(0);
  GpuSide gpu;
  TR_CO_ASSIGN_OR_RETURN(const auto weights, Weights::make(rt, prepared, gpu, {}));
  prepared.plan.layouts["fc/weight"] = *Layout::parse("replicate shard(0)");
  const Result<HeldState> held = weights->held(*weights->named(false));
  EXPECT_FALSE(held.ok());
  EXPECT_THAT(held.status().message(), HasSubstr("fc/weight"));
  co_return Status();
}

TEST(Weights, OfAnotherLayoutThanThePlansAreRefused) {
  Cluster cluster;
  cluster.run_well({0}, hold_another_plan);
}

}  // namespace
}  // namespace trireme::engine
