// A Score as JSON and as tables.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <numbers>

#include "trireme/apply/score_model.h"

namespace trireme::apply {
namespace {

using model::ModelTask;

constexpr int kMaxMatrixClasses = 100;  // in JSON; more classes: only the worst confusions
constexpr int kMaxShownMatrix = 20;     // on a terminal

struct ClassCount {
  std::int64_t samples = 0, right = 0, predicted = 0;
};
std::vector<ClassCount> count_classes(const Score& score, int num_classes) {
  std::vector<ClassCount> counts(static_cast<std::size_t>(num_classes));
  for (std::size_t i = 0; i < counts.size(); ++i)
    for (std::size_t j = 0; j < counts.size(); ++j) {
      const std::int64_t n = score.confusion[i * counts.size() + j];
      counts[i].samples += n;
      counts[j].predicted += n;
      if (i == j) counts[i].right += n;
    }
  return counts;
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::size_t name_width(const LoadedModel& model) {
  std::size_t width = 5;
  for (int i = 0; i < model.input.num_classes; ++i)
    width = std::max(width, std::min<std::size_t>(24, class_name(*model.data, i).size()));
  return width;
}

std::string matrix_text(const Score& score, const LoadedModel& model, std::size_t width) {
  const int n = model.input.num_classes;
  const std::int64_t most = *std::max_element(score.confusion.begin(), score.confusion.end());
  std::size_t cell = fmt::format("{}", most).size() + 2;
  for (int i = 0; i < n; ++i)
    cell = std::max(cell, std::min<std::size_t>(8, class_name(*model.data, i).size()) + 2);
  std::string text = fmt::format(
      "\nConfusion matrix. Rows: the true class; columns: the predicted class.\n{:{}}", "", width);
  for (int j = 0; j < n; ++j) text += fmt::format("{:>{}.8}", class_name(*model.data, j), cell);
  text += '\n';
  for (int i = 0; i < n; ++i) {
    text += fmt::format("{:<{}.24}", class_name(*model.data, i), width);
    for (int j = 0; j < n; ++j) {
      const std::int64_t count = score.confusion[static_cast<std::size_t>(i * n + j)];
      text += count == 0 ? fmt::format("{:>{}}", ".", cell) : fmt::format("{:>{}}", count, cell);
    }
    text += '\n';
  }
  return text;
}

std::string classes_text(const Score& score, const LoadedModel& model) {
  const int n = model.input.num_classes;
  const std::size_t width = name_width(model);
  std::string text;
  if (n <= kMaxMatrixClasses) {
    text += fmt::format("\n{:<{}}{:>10}{:>10}{:>10}{:>11}\n", "class", width, "samples", "correct", "recall",
                        "precision");
    const auto counts = count_classes(score, n);
    for (int i = 0; i < n; ++i) {
      const ClassCount& c = counts[static_cast<std::size_t>(i)];
      text += fmt::format("{:<{}.24}{:>10}{:>10}{:>8.2f} %{:>9.2f} %\n", class_name(*model.data, i), width,
                          c.samples, c.right, percent(c.right, c.samples), percent(c.right, c.predicted));
    }
  }
  if (n <= kMaxShownMatrix) return text + matrix_text(score, model, width);
  text += "\nMost often confused:\n";
  for (const Confusion& c : worst_confusions(score, n, 10))
    text += fmt::format("{:<{}.24} predicted as {:<{}.24}{:>8} times\n", class_name(*model.data, c.label),
                        width, class_name(*model.data, c.taken_for), width, c.count);
  return text;
}

}  // namespace

Json to_json(const Score& score, const LoadedModel& model) {
  Json j;
  j["job"] = model.job.name;
  j["weights"] = model.weights_path;
  j["step"] = model.step;
  j["part"] = engine::part_name(score.part);
  j["samples"] = score.samples;
  j["loss"] = score.loss;
  const ModelTask task = model.input.task;
  j["task"] = task == ModelTask::kClassify   ? "classify"
              : task == ModelTask::kLanguage ? "language"
                                             : "reconstruct";
  if (task != ModelTask::kReconstruct) j["accuracy"] = score.accuracy;
  if (task == ModelTask::kLanguage) {
    j["nats_per_token"] = score.loss;
    j["bits_per_token"] = score.loss / std::numbers::ln2;
    j["perplexity"] = std::exp(score.loss);
    j["tokens"] = score.samples * model.input.sample_shape[0];
  }
  if (score.top5) j["top5_accuracy"] = *score.top5;
  j["seconds"] = to_seconds(score.took);
  j["samples_per_second"] = score.samples_per_second();
  if (score.confusion.empty()) return j;
  const int n = model.input.num_classes;
  const auto counts = count_classes(score, n);
  j["classes"] = Json::array();
  for (int i = 0; i < n; ++i) {
    const ClassCount& c = counts[static_cast<std::size_t>(i)];
    j["classes"].push_back({{"class", class_name(*model.data, i)},
                            {"samples", c.samples},
                            {"right", c.right},
                            {"predicted", c.predicted}});
  }
  if (n <= kMaxMatrixClasses) {
    j["confusion"] = Json::array();
    for (int i = 0; i < n; ++i)
      j["confusion"].push_back(
          std::vector<std::int64_t>(score.confusion.begin() + i * n, score.confusion.begin() + (i + 1) * n));
  }
  j["most_confused"] = Json::array();
  for (const Confusion& c : worst_confusions(score, n, 20))
    j["most_confused"].push_back({{"class", class_name(*model.data, c.label)},
                                  {"taken_for", class_name(*model.data, c.taken_for)},
                                  {"count", c.count}});
  return j;
}

std::string to_text(const Score& score, const LoadedModel& model) {
  std::string part(engine::part_name(score.part));
  part[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(part[0])));
  const ModelTask task = model.input.task;
  std::string text, tokens;
  if (task == ModelTask::kClassify)
    text = fmt::format("{} accuracy {:.2f} %, loss {:.4f}", part, 100 * score.accuracy, score.loss);
  if (task == ModelTask::kClassify && score.top5)
    text += fmt::format(", top-5 accuracy {:.2f} %", 100 * *score.top5);
  if (task == ModelTask::kLanguage) {
    text =
        fmt::format("{} loss {:.4f} nats ({:.4f} bits) per token, perplexity {:.3f}, accuracy {:.2f} %", part,
                    score.loss, score.loss / std::numbers::ln2, std::exp(score.loss), 100 * score.accuracy);
    tokens = fmt::format("{} tokens, ", format_integer(score.samples * model.input.sample_shape[0]));
  }
  if (task == ModelTask::kReconstruct) text = fmt::format("{} loss {:.4f} per sample", part, score.loss);
  text += fmt::format(" ({} samples, {}{} samples/s)\n", format_integer(score.samples), tokens,
                      format_count(score.samples_per_second()));
  if (!score.confusion.empty()) text += classes_text(score, model);
  return text;
}

}  // namespace trireme::apply
