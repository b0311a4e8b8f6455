// The long form of mesh_test.cc: every model over meshes of two and three axes, in every pair of ways.
#include <gtest/gtest.h>

#include "tests/sharding/zoo_cases.h"

namespace trireme::parallel::testing {
namespace {

std::vector<ZooCase> whole_zoo() {
  std::vector<ZooCase> all = small_zoo();
  for (ZooCase& c : large_zoo()) all.push_back(std::move(c));
  return all;
}

class ZooOverMeshes : public ::testing::TestWithParam<ZooCase> {};

TEST_P(ZooOverMeshes, GivesTheLossAndTheGradientsOfTheWholeInEveryPairOfWays) {
  const ZooCase& c = GetParam();
  for (const char* outer : kWays)
    for (const char* inner : kWays)
      if (!misfits(c, outer) && !misfits(c, inner))
        expect_mesh_gives_the_whole(c, "outer=2,inner=2", {outer, inner});
}

TEST_P(ZooOverMeshes, GivesTheLossAndTheGradientsOfTheWholeOverThreeAxes) {
  for (const char* way : {"tensor", "price", "columns"})
    expect_mesh_gives_the_whole(GetParam(), "samples=2,outer=3,inner=2", {"data", way, "tensor"});
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooOverMeshes, ::testing::ValuesIn(whole_zoo()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace trireme::parallel::testing
