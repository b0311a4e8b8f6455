// The JSON value of the project. Objects keep the order in which keys were added, so that written files are
// stable.
#pragma once

#include <nlohmann/json.hpp>

#include "trireme/base/status.h"

namespace trireme {

using Json = nlohmann::ordered_json;

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
