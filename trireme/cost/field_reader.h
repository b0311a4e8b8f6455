// Reads the fields of a JSON object (or a TOML table turned into one) that a person wrote: optional fields,
// units in texts, and errors that name the path of the offending field. The first error wins; finish() gives
// it, or names a key that nobody asked for.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "trireme/base/json.h"
#include "trireme/base/units.h"

namespace trireme::cost {

class FieldReader {
 public:
  // `path` names the object in errors; "" for the whole file. The object outlives the reader.
  FieldReader(const Json& object, std::string path);

  bool has(const char* key) const { return object_.is_object() && object_.contains(key); }
  // An absent field leaves the value alone. Each returns false after an error.
  bool read(const char* key, int& value);
  bool read(const char* key, std::uint64_t& value);
  bool read(const char* key, double& value);
  bool read(const char* key, bool& value);
  bool read(const char* key, std::string& value);
  bool read(const char* key, std::vector<int>& value);     // a list, or one number
  bool read_duration(const char* key, TimeNs& value);      // "25us", or nanoseconds
  bool read_bandwidth(const char* key, double& value);     // "10gbit", or bytes per second
  bool read_bytes(const char* key, std::uint64_t& value);  // "64K", or bytes
  // Another object, and every object of a list.
  bool read_object(const char* key, const std::function<Status(const Json&, std::string path)>& parse);
  bool read_list(const char* key, const std::function<Status(const Json&, std::string path)>& parse);

  void fail(const char* key, std::string_view got, std::string_view expected);
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  Status finish() const;
  std::string path_of(std::string_view key) const;

 private:
  const Json* find(const char* key);

  const Json& object_;
  std::string path_;
  std::set<std::string> known_;
  Status status_;
};

}  // namespace trireme::cost
