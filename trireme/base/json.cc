#include "trireme/base/json.h"

namespace trireme {

namespace {

// Values are copied, written and destroyed by recursion: deeper ones than any file of ours would overflow the
// stack.
constexpr int kMaxDepth = 500;

bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what) {
  if (is_too_deep(text))
    return error(Code::kCorrupt, "[json] {} has lists or objects inside each other {} deep and more", what,
                 kMaxDepth);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    return error(Code::kCorrupt, "[json] {} is not valid JSON at byte {}: {}", what, e.byte, e.what());
  } catch (const nlohmann::json::exception& e) {  // a number beyond double
    return error(Code::kCorrupt, "[json] {} is not valid JSON: {}", what, e.what());
  }
}

}  // namespace trireme
