// Every model of the zoo, made small, runs forward and backward.
#include <cmath>

#include "tests/model/run.h"

namespace trireme::model {
namespace {

struct Small {
  ModelInput input;
  ModelOptions options;
};

Small small(const ZooRow& row) {
  const std::string name = row.name;
  const ModelInput text{Shape{5}, 7, ModelTask::kLanguage};
  if (name == "char-lstm") return {text, {{{"width", 6}}}};
  if (name == "char-gpt" || name == "gpt2-124m") return {text, {{{"width", 8}, {"layers", 2}, {"heads", 2}}}};
  if (name == "autoencoder") return {{Shape{1, 5, 5}, 10, ModelTask::kReconstruct}, {{{"hidden", 6}}}};
  if (name == "speech-42m") return {{Shape{12}, 9}, {{{"scale", 0.005}}}};
  if (name == "alexnet" || name == "alexnet-2012") return {{Shape{3, 63, 63}, 10}, {{{"scale", 0.03}}}};
  if (name.starts_with("vgg") || name == "googlenet") return {{Shape{3, 32, 32}, 10}, {{{"scale", 0.05}}}};
  if (name.starts_with("resnet")) return {{Shape{3, 64, 64}, 10}, {{{"scale", 0.07}}}};
  if (name == "local-net-1700m" || name == "cots-hpc") return {{Shape{2, 12, 12}, 10}, {{{"maps", 2}}}};
  if (name == "lenet" || name == "linear" || name == "mlp") return {{Shape{1, 28, 28}, 10}, {}};
  return {{Shape{1, 20, 20}, 10}, {{{"scale", 0.1}}}};
}

double dot(const Tensor& a, const Tensor& b) {
  double total = 0;
  for (std::int64_t i = 0; i < a.shape().num_elems(); ++i)
    total += static_cast<double>(a.data<float>()[i]) * b.data<float>()[i];
  return total;
}

class EveryModel : public testing::TestWithParam<const ZooRow*> {};

TEST_P(EveryModel, RunsAndItsGradientsPointUphill) {
  const Small s = small(*GetParam());
  const Result<ModelGraphs> m = build_model(GetParam()->name, s.input, 3, s.options);
  ASSERT_TRUE(m.ok()) << m.status().to_string();
  const exec::Feeds feeds = made_up(m->train, s.input.num_classes);
  Values w = initial_values(*m);
  const Values before = run(m->train, w, feeds);
  ASSERT_FALSE(before.empty());
  const double loss = *before.at("loss").data<float>();
  ASSERT_TRUE(std::isfinite(loss) && loss > 0);
  double slope = 0;
  int silent = 0;
  for (const Parameter& p : m->parameters) {
    const Tensor& g = before.at("grad:" + p.name);
    const double squares = dot(g, g);
    ASSERT_TRUE(std::isfinite(squares)) << p.name;
    silent += squares == 0 ? 1 : 0;
    slope += squares;
  }
  EXPECT_LE(silent, static_cast<int>(m->parameters.size()) / 4) << "gradients that are zero throughout";
  // A step of the length that lowers the loss by a thousandth to first order.
  const double rate = 1e-3 * loss / slope;
  for (const Parameter& p : m->parameters) {
    const Tensor& g = before.at("grad:" + p.name);
    for (std::int64_t i = 0; i < g.shape().num_elems(); ++i)
      w.at(p.name).data<float>()[i] -= static_cast<float>(rate * g.data<float>()[i]);
  }
  const double after = *run(m->train, w, feeds).at("loss").data<float>();
  EXPECT_NEAR((loss - after) / (1e-3 * loss), 1, 0.25) << "from " << loss << " to " << after;
}

TEST_P(EveryModel, IsEvaluatedWithItsStatistics) {
  const Small s = small(*GetParam());
  const ModelGraphs m = *build_model(GetParam()->name, s.input, 3, s.options);
  const Values out = run(m.eval, initial_values(m), made_up(m.eval, s.input.num_classes));
  ASSERT_FALSE(out.empty());
  EXPECT_TRUE(std::isfinite(*out.at("loss").data<float>()));
  EXPECT_GE(*out.at("correct").data<float>(), 0);
  EXPECT_LE(*out.at("correct").data<float>(), 3);
}

std::vector<const ZooRow*> all_rows() {
  std::vector<const ZooRow*> rows;
  for (const ZooRow& row : zoo()) rows.push_back(&row);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Zoo, EveryModel, testing::ValuesIn(all_rows()), [](const auto& info) {
  std::string name = info.param->name;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace trireme::model
