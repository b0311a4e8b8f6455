// Whole numbers of JSON that somebody else wrote, exactly or not at all. json_get (json.h) converts as C++
// does: it cuts 70000 to fit 16 bits, takes true for 1 and 1.5 for 1, and a number beyond the type is
// undefined.
#pragma once

#include <concepts>
#include <limits>
#include <utility>
#include <vector>

#include "trireme/base/json.h"

namespace trireme {

// `key` names the value in the error.
template <std::integral T>
Result<T> json_whole(const Json& value, const char* key) {
  if (value.is_number_unsigned()) {
    if (const auto n = value.get<std::uint64_t>(); std::in_range<T>(n)) return static_cast<T>(n);
  } else if (value.is_number_integer()) {
    if (const auto n = value.get<std::int64_t>(); std::in_range<T>(n)) return static_cast<T>(n);
  }
  if (!value.is_number())
    return error(Code::kCorrupt, "[json] key '{}' has the wrong type: got {}", key, value.type_name());
  return error(Code::kCorrupt, "[json] key '{}': got {}, expected an integer of {}..{}", key, value.dump(),
               std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}

template <std::integral T>
Result<T> json_get_whole(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return error(Code::kCorrupt, "[json] key '{}' is missing", key);
  return json_whole<T>(*it, key);
}

template <std::integral T>
Result<std::vector<T>> json_get_wholes(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return error(Code::kCorrupt, "[json] key '{}' is missing", key);
  if (!it->is_array())
    return error(Code::kCorrupt, "[json] key '{}' has the wrong type: got {}", key, it->type_name());
  std::vector<T> out;
  out.reserve(it->size());
  for (const Json& value : *it) {
    TR_ASSIGN_OR_RETURN(const T n, json_whole<T>(value, key));
    out.push_back(n);
  }
  return out;
}

}  // namespace trireme
