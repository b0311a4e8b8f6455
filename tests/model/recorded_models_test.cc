// Models of the zoo against the same models of PyTorch's layers, recorded by tests/model/record_models.py.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/model/run.h"
#include "trireme/base/json.h"

namespace trireme::model {
namespace {

Json recorded() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  TR_CHECK(root != nullptr, "TRIREME_SOURCE_DIR is not set");
  std::ifstream file(std::string(root) + "/tests/model/recorded/models.json");
  std::stringstream text;
  text << file.rdbuf();
  return *parse_json(text.str(), "models.json");
}

double noise(const std::string& name, std::int64_t i, double step = 12.9898) {
  const double angle = step * static_cast<double>(i) + static_cast<double>(hash_text(name) % 1000) / 100;
  const double large = 43758.5453 * std::sin(angle);
  return 2 * (large - std::floor(large)) - 1;
}

Tensor weight(const Parameter& p) {
  Tensor t = *Tensor::allocate(cpu_device(), p.type);
  const std::string last = p.name.substr(p.name.rfind('/') + 1);
  const std::int64_t count = p.type.shape.num_elems(), fan_in = count / p.type.shape[0];
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = noise(p.name, i);
    t.data<float>()[i] =
        static_cast<float>(last == "scale"            ? 1 + 0.1 * v
                           : last.starts_with("bias") ? 0.1 * v
                                                      : v * std::sqrt(2.0 / static_cast<double>(fan_in)));
  }
  return t;
}

// The formulas of the recorder.
exec::Feeds feeds_of(const graph::Graph& g, std::int64_t classes) {
  exec::Feeds feeds = made_up(g, 1);
  for (auto& [name, t] : feeds) {
    for (std::int64_t i = 0; i < t.shape().num_elems(); ++i) {
      if (name == "images") t.data<float>()[i] = static_cast<float>(noise("images", i, 78.233));
      if (name == "tokens") t.data<std::int32_t>()[i] = static_cast<std::int32_t>((7 * i + 3) % classes);
      if (name == "labels") t.data<std::int32_t>()[i] = static_cast<std::int32_t>((5 * i + 1) % classes);
    }
  }
  return feeds;
}

TEST(RecordedModels, LossesGradientsAndStatisticsAreThoseOfPyTorch) {
  const Json record = recorded();
  for (const Json& c : record.at("cases")) {
    const std::string name = c.at("name");
    const auto dims = c.at("shape").get<std::vector<std::int64_t>>();
    const bool text = name.starts_with("char");
    const ModelInput in{Shape(dims), c.at("classes").get<int>(),
                        text ? ModelTask::kLanguage : ModelTask::kClassify};
    ModelOptions options;
    for (const auto& [key, value] : c.at("options").items())
      options.items.emplace_back(key, value.get<double>());
    const Result<ModelGraphs> m = build_model(name, in, record.at("samples").get<std::int64_t>(), options);
    ASSERT_TRUE(m.ok()) << m.status().to_string();
    ASSERT_EQ(m->parameters.size(), c.at("grads").size()) << name;
    Values w;
    for (const Parameter& p : m->parameters) w.emplace(p.name, weight(p));
    const Values out = run(m->train, w, feeds_of(m->train, in.num_classes));
    EXPECT_NEAR(*out.at("loss").data<float>(), c.at("loss").get<double>(), 1e-5) << name;
    for (const Parameter& p : m->parameters) {
      ASSERT_TRUE(c.at("grads").contains(p.name)) << name << " " << p.name;
      const Tensor& g = out.at("grad:" + p.name);
      double squares = 0, probe = 0;
      for (std::int64_t i = 0; i < g.shape().num_elems(); ++i) {
        const double v = g.data<float>()[i];
        squares += v * v;
        probe += v * noise("probe", i);
      }
      const double length = c.at("grads").at(p.name)[0];
      EXPECT_NEAR(std::sqrt(squares), length, 2e-4 * length + 1e-7) << name << " " << p.name;
      EXPECT_NEAR(probe, c.at("grads").at(p.name)[1].get<double>(), 1e-3 * length + 1e-7)
          << name << " " << p.name;
    }
    ASSERT_EQ(m->statistics.size(), c.at("statistics").size()) << name;
    for (const Statistic& s : m->statistics) {
      const auto expected = c.at("statistics").at(s.name).get<std::vector<double>>();
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(out.at("stat:" + s.name).data<float>()[i], expected[i],
                    1e-4 * (1 + std::abs(expected[i])))
            << name << " " << s.name;
    }
  }
}

}  // namespace
}  // namespace trireme::model
