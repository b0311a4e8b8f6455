// Models of the zoo cut in their depth: the segments one after the other give what the whole graph gives.
#include <gtest/gtest.h>

#include "tests/sharding/zoo_cases.h"
#include "trireme/graph/pass/passes.h"
#include "trireme/parallel/segment/segments.h"

namespace trireme::parallel::testing {
namespace {

// Forward outputs of a train graph, and what it is differentiated by.
struct Parts {
  std::vector<std::string> forward, trained;
};
Parts parts_of(const graph::Graph& train) {
  Parts parts;
  for (const auto& [name, v] : train.outputs()) {
    if (name.starts_with("grad:"))
      parts.trained.push_back(name.substr(5));
    else
      parts.forward.push_back(name);
  }
  return parts;
}

Result<Tensors> run_with(const graph::Graph& graph, const std::vector<std::string>& outputs,
                         const Tensors& fed) {
  if (outputs.empty()) return Tensors();
  TR_ASSIGN_OR_RETURN(const graph::Graph live, graph::eliminate_dead_code(graph, outputs));
  return run_whole(live, fed);
}

// Every segment's forward, then backward from the last to the first. Gradients of a parameter that several
// segments read are added, the first segment's first.
Result<Tensors> run_segments(const SegmentedModel& model, Tensors fed) {
  Tensors out;
  std::map<std::string, std::vector<Tensor>> gradients;
  for (const Segment& s : model.segments) {
    TR_ASSIGN_OR_RETURN(const Tensors made, run_with(s.graph, s.forward, fed));
    for (const auto& [name, value] : made) (name.starts_with("over:") ? fed : out)[name] = value;
  }
  for (auto s = model.segments.rbegin(); s != model.segments.rend(); ++s) {
    std::vector<std::string> names = s->backward;
    names.insert(names.end(), s->weights.begin(), s->weights.end());
    TR_ASSIGN_OR_RETURN(const Tensors made, run_with(s->graph, names, fed));
    for (const auto& [name, value] : made) {
      if (name.starts_with("back:"))
        fed[name] = value;
      else
        gradients[name].insert(gradients[name].begin(), value);
    }
  }
  for (auto& [name, parts] : gradients) {
    for (std::size_t i = 1; i < parts.size(); ++i)
      for (std::int64_t k = 0; k < parts[0].shape().num_elems(); ++k)
        parts[0].data<double>()[k] += parts[i].data<double>()[k];
    out[name] = parts[0];
  }
  return out;
}

class SegmentedZoo : public ::testing::TestWithParam<ZooCase> {};

TEST_P(SegmentedZoo, GivesTheLossAndAllGradientsOfTheWhole) {
  const ZooGraph zoo = made(GetParam(), GetParam().batch);
  const Parts parts = parts_of(zoo.graph);
  const auto forward = graph::eliminate_dead_code(zoo.graph, parts.forward);
  ASSERT_TRUE(forward.ok()) << forward.status().to_string();
  const LayerList list = layers_of(*forward);
  const auto most = static_cast<std::int32_t>(list.layers.size());
  for (const std::int32_t segments : {1, 2, 3, most}) {
    if (segments > most) continue;
    SCOPED_TRACE(fmt::format("{} segments", segments));
    const auto cuts = balanced_cuts(list, segments);
    ASSERT_TRUE(cuts.ok()) << cuts.status().to_string();
    const auto model = cut_model({&*forward, &list, *cuts, parts.trained});
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    const auto got = run_segments(*model, zoo.fed);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    ASSERT_EQ(got->size(), zoo.expected.size());
    for (const auto& [name, value] : zoo.expected) expect_close(got->at(name), value, zoo.tolerance, name);
  }
}

INSTANTIATE_TEST_SUITE_P(Small, SegmentedZoo, ::testing::ValuesIn(small_zoo()),
                         [](const auto& info) { return info.param.label; });

INSTANTIATE_TEST_SUITE_P(Large, SegmentedZoo, ::testing::ValuesIn(large_zoo()),
                         [](const auto& info) { return info.param.label; });

}  // namespace
}  // namespace trireme::parallel::testing
