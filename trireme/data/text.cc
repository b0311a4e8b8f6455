#include "trireme/data/text.h"

#include <algorithm>
#include <map>

#include "trireme/data/shown_text.h"

namespace trireme::data {
namespace {

constexpr std::size_t kMaxVocabulary = 65536;  // tokens are kept as u16
constexpr std::int64_t kMaxContext = 1 << 20;

void take_bytes(std::string_view text, Dataset& set) {
  for (int i = 0; i < 256; ++i) set.class_names.emplace_back(1, static_cast<char>(i));
  set.stream.tokens.reserve(text.size());
  for (const char c : text) set.stream.tokens.push_back(static_cast<unsigned char>(c));
}

// Tokens are numbered in the order of the characters' bytes, which is that of their code points.
Status take_chars(std::string_view text, std::string_view source, Dataset& set) {
  std::map<std::string_view, std::uint16_t> numbers;
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) {
    const std::size_t size = char_bytes(text.substr(at));
    if (size == 0)
      return error(
          Code::kCorrupt,
          "[data] {}, offset {}: byte {:#04x} is not UTF-8; convert the file or take bytes as tokens", source,
          at, static_cast<unsigned char>(text[at]));
    numbers.try_emplace(text.substr(at, size), 0);
    if (numbers.size() > kMaxVocabulary)
      return error(Code::kInvalid,
                   "[data] {}, offset {}: more than {} different characters; take bytes as tokens", source,
                   at, kMaxVocabulary);
    at += size;
  }
  std::uint16_t next = 0;
  for (auto& [text_of, number] : numbers) {
    set.class_names.emplace_back(text_of);
    number = next++;
  }
  set.stream.tokens.reserve(count);
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view one = text.substr(at, char_bytes(text.substr(at)));
    set.stream.tokens.push_back(numbers.find(one)->second);
    at += one.size();
  }
  return {};
}

Status check_options(const TextOptions& o) {
  if (o.unit != "chars" && o.unit != "bytes")
    return error(Code::kInvalid, "[data] tokens: got '{}', expected chars or bytes", o.unit);
  if (o.context < 1 || o.context > kMaxContext)
    return error(Code::kInvalid, "[data] context: got {}, expected 1 to {}", o.context, kMaxContext);
  if (o.stride < 0 || o.stride > kMaxContext)
    return error(Code::kInvalid, "[data] stride: got {}, expected 0 to {}", o.stride, kMaxContext);
  if (!(o.held_out >= 0 && o.held_out < 1))
    return error(Code::kInvalid, "[data] held-out fraction: got {}, expected 0 or more and less than 1",
                 o.held_out);
  return {};
}

}  // namespace

Result<Dataset> parse_text(std::string_view text, std::string_view source, const TextOptions& options) {
  TR_RETURN_IF_ERROR(check_options(options));
  Dataset set;
  set.name = "text";
  set.source = source;
  set.dtype = DType::kI32;
  set.label_kind = Labels::kNext;
  set.sample_shape = {options.context};
  if (options.unit == "bytes")
    take_bytes(text, set);
  else
    TR_RETURN_IF_ERROR(take_chars(text, source, set));
  set.num_classes = static_cast<int>(set.class_names.size());
  TokenStream& stream = set.stream;
  const auto total = static_cast<std::int64_t>(stream.tokens.size());
  stream.context = options.context;
  stream.stride = options.stride > 0 ? options.stride : options.context;
  stream.train_tokens = total - static_cast<std::int64_t>(static_cast<double>(total) * options.held_out);
  set.num_train = stream.num_train_rows();
  set.num_test = stream.num_held_out_rows();
  if (set.num_train == 0 || (options.held_out > 0 && set.num_test == 0))
    return error(Code::kInvalid,
                 "[data] {}, offset {}: the text ends too early: {} tokens to train and {} to test, but a "
                 "window takes {}; take a longer text or a shorter context",
                 source, text.size(), stream.train_tokens, total - stream.train_tokens, options.context + 1);
  return set;
}

}  // namespace trireme::data
