#include "trireme/cost/field_reader.h"

#include <cmath>

#include "trireme/cost/quantity.h"

namespace trireme::cost {

FieldReader::FieldReader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object_.is_object())
    status_ = error(Code::kInvalid, "[cluster] {}: got {}, expected a table",
                    path_.empty() ? "the file" : path_, object_.type_name());
}

std::string FieldReader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void FieldReader::fail(const char* key, std::string_view got, std::string_view expected) {
  fail(error(Code::kInvalid, "[cluster] {}: got {}, expected {}", path_of(key), got, expected));
}

const Json* FieldReader::find(const char* key) {
  known_.insert(key);
  if (!status_.ok()) return nullptr;
  const auto it = object_.find(key);
  return it == object_.end() ? nullptr : &*it;
}

bool FieldReader::read(const char* key, int& value) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  if (!j->is_number_integer() || j->get<double>() > 1e9 || j->get<double>() < -1e9) {
    fail(key, j->dump(), "an integer");
    return false;
  }
  value = j->get<int>();
  return true;
}

bool FieldReader::read(const char* key, std::uint64_t& value) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  if (!j->is_number_integer() || *j < 0) {
    fail(key, j->dump(), "an integer, 0 or more");
    return false;
  }
  value = j->get<std::uint64_t>();
  return true;
}

bool FieldReader::read(const char* key, double& value) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  if (!j->is_number() || !std::isfinite(j->get<double>())) {
    fail(key, j->dump(), "a number");
    return false;
  }
  value = j->get<double>();
  return true;
}

bool FieldReader::read(const char* key, bool& value) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  if (!j->is_boolean()) {
    fail(key, j->dump(), "true or false");
    return false;
  }
  value = j->get<bool>();
  return true;
}

bool FieldReader::read(const char* key, std::string& value) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  if (!j->is_string()) {
    fail(key, j->dump(), "a string");
    return false;
  }
  value = j->get<std::string>();
  return true;
}

bool FieldReader::read(const char* key, std::vector<int>& value) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  value.clear();
  const Json one = Json::array({*j});
  for (const Json& item : j->is_array() ? *j : one) {
    if (!item.is_number_integer() || item.get<double>() > 1e9 || item.get<double>() < -1e9) {
      fail(key, j->dump(), "integers");
      return false;
    }
    value.push_back(item.get<int>());
  }
  return true;
}

bool FieldReader::read_duration(const char* key, TimeNs& value) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  if (j->is_number_integer() && *j >= 0) {
    value = j->get<TimeNs>();
    return true;
  }
  const Result<TimeNs> parsed = parse_duration(j->is_string() ? j->get<std::string>() : "");
  if (!parsed.ok()) {
    fail(key, j->dump(), "a time like \"25us\" or an integer of nanoseconds");
    return false;
  }
  value = *parsed;
  return true;
}

bool FieldReader::read_bandwidth(const char* key, double& value) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  if (j->is_number() && j->get<double>() > 0 && std::isfinite(j->get<double>())) {
    value = j->get<double>();
    return true;
  }
  const Result<double> parsed = parse_bandwidth(j->is_string() ? j->get<std::string>() : "");
  if (!parsed.ok()) {
    fail(key, j->dump(), "a bandwidth like \"10gbit\" or bytes per second");
    return false;
  }
  value = *parsed;
  return true;
}

bool FieldReader::read_bytes(const char* key, std::uint64_t& value) {
  const Json* j = find(key);
  if (j == nullptr || !j->is_string()) return read(key, value);
  const Result<std::uint64_t> parsed = parse_bytes(j->get<std::string>());
  if (!parsed.ok()) {
    fail(key, j->dump(), "a size like \"64K\" or an integer of bytes");
    return false;
  }
  value = *parsed;
  return true;
}

bool FieldReader::read_object(const char* key, const std::function<Status(const Json&, std::string)>& parse) {
  const Json* j = find(key);
  if (j != nullptr) fail(parse(*j, path_of(key)));
  return status_.ok();
}

bool FieldReader::read_list(const char* key, const std::function<Status(const Json&, std::string)>& parse) {
  const Json* j = find(key);
  if (j == nullptr) return status_.ok();
  if (!j->is_array()) {
    fail(key, j->type_name(), "a list of tables");
    return false;
  }
  for (std::size_t i = 0; i < j->size() && status_.ok(); ++i)
    fail(parse((*j)[i], fmt::format("{}[{}]", path_of(key), i)));
  return status_.ok();
}

Status FieldReader::finish() const {
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : object_.items()) {
    if (known_.count(key) > 0) continue;
    std::string names;
    for (const std::string& k : known_) names += names.empty() ? k : ", " + k;
    return error(Code::kInvalid, "[cluster] {}: unknown key; there are: {}", path_of(key), names);
  }
  return {};
}

}  // namespace trireme::cost
