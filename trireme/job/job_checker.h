// The first rule that a job breaks, told with the key and where it was given. Internal to job_check*.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>

#include "trireme/job/job.h"

namespace trireme::job {

class JobChecker {
 public:
  explicit JobChecker(const Job& job) : job_(job) {}

  Status status;  // the first rule that does not hold

  void expect(bool holds, std::string_view key, std::string_view rule) {
    if (holds || !status.ok()) return;
    std::string got;
    for (const JobKey& row : job_keys())
      if (row.path == key) got = value_text(job_, row);
    refuse(key, error(Code::kInvalid, "[job] key '{}': got {}, expected {}", key, got, rule));
  }
  void expect_one_of(const std::string& value, std::string_view key,
                     std::initializer_list<std::string_view> names) {
    std::string known;
    for (const std::string_view n : names) known += fmt::format("{}{}", known.empty() ? "" : ", ", n);
    expect(std::find(names.begin(), names.end(), value) != names.end(), key, "one of: " + known);
  }
  // What another module has to say about the value of a key.
  void expect_ok(const Status& said, std::string_view key) {
    if (said.ok() || !status.ok()) return;
    refuse(key, Status(Code::kInvalid, said.message()));
  }

 private:
  void refuse(std::string_view key, const Status& why) {
    const auto at = job_.given_at.find(key);
    status = at == job_.given_at.end() ? why : why.with_prefix(at->second + ": ");
  }
  const Job& job_;
};

// Calls fn(key, field, value) for the options of a family that were given.
template <class Fn>
void for_given_options(const Job& job, OptionsOf family, const Fn& fn) {
  for (const JobKey& key : job_keys())
    if (const auto* field = std::get_if<OptionField>(&key.field); field != nullptr && field->family == family)
      if (const OptionValue* value = options_of(job, family).find(field->spec->name)) fn(key, *field, *value);
}

// Every option of the family that was given is within the range of its spec.
inline void check_ranges(JobChecker& c, const Job& job, OptionsOf family) {
  for_given_options(job, family, [&](const JobKey& key, const OptionField& field, const OptionValue& value) {
    c.expect(field.spec->range.holds(value), key.path, field.spec->range.text());
  });
}

inline bool in_range(double v, double least, double most) {
  return std::isfinite(v) && v >= least && v <= most;
}

// The section [parallel], and what of the other sections its agreement cannot do.
void check_parallel(JobChecker& c, const Job& job);

}  // namespace trireme::job
