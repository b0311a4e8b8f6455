// generate: a language model goes on with a text, token by token.
#pragma once

#include <functional>
#include <span>

#include "trireme/apply/load_model.h"

namespace trireme::apply {

struct GenerateOptions {
  std::string prompt;         // empty: a new line, or the first token where the vocabulary has none
  std::int64_t tokens = 200;  // to add
  double temperature = 0.8;   // logits are divided by it; 0: always the most likely token
  std::int64_t top_k = 0;     // only the k most likely tokens; 0: all
  std::uint64_t seed = 1;
};

struct Generated {
  std::string prompt, text;  // what was given, what was added
  std::int64_t tokens = 0;
  TimeNs took = 0;
};

// The tokens of `text`. kInvalid names every character that the vocabulary lacks, with its offset.
Result<std::vector<std::int32_t>> tokenise(const data::Dataset& data, std::string_view text);

// The token that follows: drawn by (seed, position) alone, so that the same call gives the same text. The
// first of equal ones counts as more likely.
std::int32_t pick_token(std::span<const float> logits, const GenerateOptions& options, std::int64_t position);

// Checks numbers: kInvalid names the option.
Status check_options(const GenerateOptions& options);

// kInvalid: an option out of its range, or a prompt with characters that the model never saw.
Status check_prompt(const LoadedModel& model, const GenerateOptions& options);

// `emit` gets every token's text as soon as it is there. The model sees the last `context` tokens. On a mesh
// collective, and every rank gets the text.
runtime::Task<Result<Generated>> generate(runtime::Runtime& rt, const LoadedModel& model,
                                          GenerateOptions options,
                                          std::function<void(std::string_view)> emit);

}  // namespace trireme::apply
