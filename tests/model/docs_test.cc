// docs/how_to_own_model.md lists what the tables hold, and its snippets build one model.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/model/run.h"
#include "trireme/model/describe.h"
#include "trireme/model/optimizer.h"
#include "trireme/model/schedule.h"

namespace trireme::model {
namespace {

std::string page() {
  const char* root = std::getenv("TRIREME_SOURCE_DIR");
  TR_CHECK(root != nullptr, "TRIREME_SOURCE_DIR is not set");
  std::ifstream file(std::string(root) + "/docs/how_to_own_model.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string row_of(const LayerRow& row) {
  std::string attrs;
  for (const LayerAttr& a : row.attrs) {
    std::string value;
    if (a.type == LayerAttr::Type::kText) value = a.text;
    if (a.type == LayerAttr::Type::kBool) value = a.number != 0 ? "true" : "false";
    if (value.empty()) value = fmt::format("{}", a.number);
    attrs += fmt::format("{}`{}{}`", attrs.empty() ? "" : ", ", a.name, a.required ? "" : "=" + value);
  }
  return fmt::format("| `{}` | {} |\n", row.kind, attrs.empty() ? "none" : attrs);
}

template <typename Rows, typename Name>
std::string listed(const Rows& rows, Name name) {
  std::string text;
  for (const auto& row : rows) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name(row));
  return text;
}

TEST(Docs, TheHowToListsEveryTable) {
  std::string text = page();
  std::string layers, activations = activation_names();
  for (const LayerRow& row : layer_table()) layers += row_of(row);
  for (std::size_t at = 0; (at = activations.find(", ", at)) != std::string::npos; at += 4)
    activations.replace(at, 2, "`, `");
  const auto name = [](const auto& row) { return row.name; };
  const auto init = [](const InitRow& row) {
    return fmt::format("{}{}", row.name, row.takes_argument ? "(x)" : "");
  };
  EXPECT_NE(text.find(layers), std::string::npos) << "docs/how_to_own_model.md lacks:\n" << layers;
  text = std::regex_replace(text, std::regex("\\s+"), " ");  // lists are wrapped
  for (const std::string& part : {"`" + activations + "`", listed(init_table(), init), listed(zoo(), name),
                                  listed(optimizer_table(), name), listed(schedule_table(), name)})
    EXPECT_NE(text.find(part), std::string::npos) << "docs/how_to_own_model.md lacks:\n" << part;
}

TEST(Docs, BothSnippetsBuildOneModel) {
  const std::string text = page();
  const std::size_t begin = text.find("```json\n") + 8, end = text.find("```", begin);
  const ModelInput in{Shape{1, 28, 28}, 10};
  const ModelGraphs words =
      *build_graphs(*describe_model(*parse_json(text.substr(begin, end - begin), "page"), in), in, 2);
  const ModelGraphs code = *build_graphs(
      [](LayerBuilder& l, graph::Value x) {
        x = l.max_pool(l.activation("relu", l.conv2d("conv", x, {.out = 8, .window = 5, .padding = 2})), {});
        return l.dense("out", l.activation("relu", l.dense("hidden", x, 64)), 10);
      },
      in, 2);
  const exec::Feeds feeds = made_up(code.train, 10);
  EXPECT_EQ(floats(run(words.train, initial_values(words), feeds).at("loss")),
            floats(run(code.train, initial_values(code), feeds).at("loss")));
}

}  // namespace
}  // namespace trireme::model
