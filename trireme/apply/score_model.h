// score_model: a trained model against a part of its data: loss, accuracy and, of classifiers, which classes
// it takes for which.
#pragma once

#include <functional>
#include <optional>

#include "trireme/apply/load_model.h"
#include "trireme/base/units.h"
#include "trireme/engine/evaluator.h"

namespace trireme::apply {

struct Score {
  engine::Part part = engine::Part::kTest;
  std::int64_t samples = 0;
  double loss = 0;      // mean over samples; of a text: nats per token
  double accuracy = 0;  // share of right samples, of a text: of right tokens; 0 for reconstructions
  // Classifiers of up to 4096 classes: how many samples of class i were taken for class j, at
  // i * num_classes + j.
  std::vector<std::int64_t> confusion;
  std::optional<double> top5;  // share of samples whose class is among the five best; above ten classes
  TimeNs took = 0;             // without compiling

  double samples_per_second() const { return took > 0 ? static_cast<double>(samples) / to_seconds(took) : 0; }
};

using BatchProgress = std::function<void(std::int64_t done, std::int64_t total)>;  // batches

// kInvalid: the part has no samples.
Status check_part(const LoadedModel& model, engine::Part part);

// The loss and accuracy of the trainer's evaluation, bit for bit, where the model is cut as in training. On a
// mesh collective, and complete at its first rank. kInvalid: the part has no samples.
runtime::Task<Result<Score>> score_model(runtime::Runtime& rt, const LoadedModel& model, engine::Part part,
                                         BatchProgress progress = {});

// Two classes and how often one was taken for the other, most often first, at most `most` of them.
struct Confusion {
  std::int64_t label = 0, taken_for = 0, count = 0;
};
std::vector<Confusion> worst_confusions(const Score& score, int num_classes, std::size_t most);

// "7", or the name that the data gives it.
std::string class_name(const data::Dataset& data, std::int64_t index);

Json to_json(const Score& score, const LoadedModel& model);
std::string to_text(const Score& score, const LoadedModel& model);

}  // namespace trireme::apply
