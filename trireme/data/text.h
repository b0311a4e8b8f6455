// Text for language models: a file becomes a stream of tokens, samples are windows of it.
#pragma once

#include <string_view>

#include "trireme/data/dataset.h"

namespace trireme::data {

struct TextOptions {
  std::string unit = "chars";  // "chars": the distinct characters (UTF-8) of the text; "bytes": 256 of them
  std::int64_t context = 128;  // tokens a sample holds
  std::int64_t stride = 0;     // between the starts of training windows; 0: context
  double held_out = 0.1;       // the last share of the text is for testing
};

// kInvalid: options that make no sense, or a text too short for one window of each part. kCorrupt: bytes that
// are no UTF-8, with their offset.
Result<Dataset> parse_text(std::string_view text, std::string_view source, const TextOptions& options);

}  // namespace trireme::data
