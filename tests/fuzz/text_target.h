// One input of the text reader's fuzz target: four bytes of options, then the text. The tokens spell the
// text, and every window lies within its part.
#pragma once

#include "trireme/data/text.h"

namespace trireme::data {

inline bool run_text_target(ByteView bytes) {
  if (bytes.size() < 4) return false;
  TextOptions options;
  options.unit = (static_cast<unsigned>(bytes[0]) & 1U) != 0 ? "bytes" : "chars";
  options.context = static_cast<std::int64_t>(bytes[1]) % 32;
  options.stride = static_cast<std::int64_t>(bytes[2]) % 32;
  options.held_out = static_cast<double>(bytes[3]) / 256;
  const std::string_view text = as_text(bytes.subspan(4));
  const Result<Dataset> set = parse_text(text, "x.txt", options);
  if (!set.ok()) return false;
  TR_CHECK(check_dataset(*set).ok(), "{}", check_dataset(*set).to_string());
  std::string spelled;
  for (const std::uint16_t token : set->stream.tokens) spelled += set->class_names[token];
  TR_CHECK(spelled == text);
  const auto context = static_cast<std::size_t>(options.context);
  std::vector<std::int32_t> tokens(context), labels(context);
  std::vector<float> weights(1);
  for (std::int64_t id = 0; id < set->num_train + set->num_test; ++id) {
    FillOptions fill;
    fill.augment = true;
    fill.epoch = id;
    fill_batch(*set, std::span(&id, 1), fill, {{}, tokens, labels, weights});
    for (std::size_t i = 0; i + 1 < context; ++i) TR_CHECK(labels[i] == tokens[i + 1]);
  }
  return true;
}

}  // namespace trireme::data
