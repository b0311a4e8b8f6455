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

inline bool in_range(double v, double least, double most) {
  return std::isfinite(v) && v >= least && v <= most;
}

// The section [parallel], and what of the other sections its agreement cannot do.
void check_parallel(JobChecker& c, const Job& job);

}  // namespace trireme::job
