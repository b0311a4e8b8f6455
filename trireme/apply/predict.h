// Predictions of a trained model for single samples.
#pragma once

#include "trireme/apply/predict_input.h"
#include "trireme/apply/score_model.h"

namespace trireme::apply {

// What a classifier says about a sample.
struct Prediction {
  std::string name;                    // its file, or its number
  std::int32_t label = -1;             // what it is; -1: not known
  std::int32_t best = 0, second = -1;  // classes; -1: there is only one
  double probability = 0, second_probability = 0;
};

// kInvalid: there are none.
Status check_samples(const Samples& samples);

// The first `most` samples (0: all), in their order. On a mesh collective, and complete at its first rank, as
// reconstruct() is. kInvalid: the model is no classifier.
runtime::Task<Result<std::vector<Prediction>>> classify(runtime::Runtime& rt, const LoadedModel& model,
                                                        const Samples& samples, std::int64_t most,
                                                        BatchProgress progress = {});

// Samples drawn again by a model that was trained to do so; values as the model sees them (normalised).
struct Reconstructions {
  std::vector<std::string> names;
  std::vector<double> errors;             // mean squared difference of each
  std::vector<float> originals, rebuilt;  // samples x values
};
runtime::Task<Result<Reconstructions>> reconstruct(runtime::Runtime& rt, const LoadedModel& model,
                                                   const Samples& samples, std::int64_t most,
                                                   BatchProgress progress = {});

Json to_json(const std::vector<Prediction>& predictions, const LoadedModel& model);
std::string to_text(const std::vector<Prediction>& predictions, const LoadedModel& model);
// RFC 4180, with a header.
std::string to_csv(const std::vector<Prediction>& predictions, const LoadedModel& model);
Json to_json(const Reconstructions& reconstructions);
std::string to_text(const Reconstructions& reconstructions);

}  // namespace trireme::apply
