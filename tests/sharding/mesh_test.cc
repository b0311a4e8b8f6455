// Models cut over two axes, one after the other: the second cuts the exchanges of the first. The graphs of
// all ranks give the loss and all gradients of the whole graph, in f64.
#include <gtest/gtest.h>

#include "tests/sharding/zoo_cases.h"

namespace trireme::parallel::testing {
namespace {

struct MeshCase {
  const char* model;
  const char* mesh;
  std::vector<std::string> ways;
};

TEST(ShardedOverTwoAxes, GiveTheLossAndTheGradientsOfTheWhole) {
  const MeshCase cases[] = {
      {"mlp", "outer=2,inner=2", {"tensor", "tensor"}},  {"mlp", "outer=2,inner=3", {"data", "tensor"}},
      {"mlp", "outer=3,inner=2", {"rows", "columns"}},   {"lenet", "outer=2,inner=2", {"spatial", "spatial"}},
      {"lenet", "outer=2,inner=3", {"tensor", "data"}},  {"gpt", "outer=2,inner=3", {"sequence", "tensor"}},
      {"gpt", "outer=3,inner=2", {"tensor", "price"}},   {"experts", "outer=2,inner=2", {"expert", "tensor"}},
      {"lstm", "outer=2,inner=2", {"tensor", "tensor"}},
  };
  for (const MeshCase& c : cases) expect_mesh_gives_the_whole(zoo_case(c.model), c.mesh, c.ways);
}

}  // namespace
}  // namespace trireme::parallel::testing
