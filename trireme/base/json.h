// The JSON value of the project. Objects keep the order in which keys were added, so that written files are
// stable.
#pragma once

#include <nlohmann/json.hpp>

#include "trireme/base/status.h"

// Declared before anybody can use the library's own, which throws.
template <>
std::string nlohmann::ordered_json::dump(int indent, char indent_char, bool ensure_ascii,
                                         nlohmann::ordered_json::error_handler_t on_error) const;
// Compiled once, in json.cc.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace trireme {

// Strings may hold any bytes: names of files and of classes. dump() does not throw at one that is not UTF-8
// but writes it as escape_bytes (utf8.h) does: caf\xe9. Who asks for another way (`replace`) gets that.
using Json = nlohmann::ordered_json;

// As dump(), but refuses what is not UTF-8: for files that must give back the same bytes.
Result<std::string> dump_utf8(const Json& value, int indent, std::string_view area);

// Parses strict JSON; `what` names the source in the error ("plan.json").
Result<Json> parse_json(std::string_view text, std::string_view what);

// A typed member of an object, or a failure that names the key.
template <typename T>
Result<T> json_get(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return error(Code::kCorrupt, "[json] key '{}' is missing", key);
  try {
    return it->template get<T>();
  } catch (const nlohmann::json::exception&) {
    return error(Code::kCorrupt, "[json] key '{}' has the wrong type: got {}", key, it->type_name());
  }
}

}  // namespace trireme
