#include "trireme/base/json.h"

#include <algorithm>

#include "trireme/base/utf8.h"

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

std::string utf8_of(const std::string& text) { return is_utf8(text) ? text : escape_bytes(text); }

// The same value with every string and key as UTF-8.
Json as_utf8(const Json& value) {
  if (value.is_string()) return utf8_of(value.get_ref<const std::string&>());
  Json out = value;
  if (value.is_array()) {
    for (Json& item : out) item = as_utf8(item);
  } else if (value.is_object()) {
    out = Json::object();
    for (const auto& [key, item] : value.items()) out[utf8_of(key)] = as_utf8(item);
  }
  return out;
}

std::string write(const Json& value, int indent, char indent_char, bool ensure_ascii,
                  Json::error_handler_t on_error) {
  std::string text;
  nlohmann::detail::serializer<Json> to(nlohmann::detail::output_adapter<char, std::string>(text),
                                        indent_char, on_error);
  to.dump(value, indent >= 0, ensure_ascii, static_cast<unsigned>(std::max(indent, 0)));
  return text;
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

Result<std::string> dump_utf8(const Json& value, int indent, std::string_view area) {
  try {
    return write(value, indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::strict);
  } catch (const Json::exception&) {
    return error(Code::kInvalid, "[{}] a name is not UTF-8, expected one that JSON can hold", area);
  }
}

}  // namespace trireme

template <>
std::string nlohmann::ordered_json::dump(int indent, char indent_char, bool ensure_ascii,
                                         error_handler_t on_error) const {
  try {
    return trireme::write(*this, indent, indent_char, ensure_ascii, on_error);
  } catch (const type_error&) {  // a string that is not UTF-8; rare, so that nobody looks first
    return trireme::write(trireme::as_utf8(*this), indent, indent_char, ensure_ascii, on_error);
  }
}

template class nlohmann::basic_json<nlohmann::ordered_map>;
