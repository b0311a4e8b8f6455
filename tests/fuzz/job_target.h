// One input of the job reader's fuzz target: TOML, and after a zero byte lines "key=value" as --set has them.
// The job that comes out, right or wrong, is written as TOML that reads as the same job.
#pragma once

#include "trireme/base/bytes.h"
#include "trireme/base/crc32c.h"
#include "trireme/job/job.h"

namespace trireme::train {

// Whether the text is a job, every line was taken and the job may be run.
inline bool run_job_target(ByteView bytes) {
  std::string_view text = as_text(bytes), lines;
  if (const std::size_t end = text.find('\0'); end != std::string_view::npos) {
    lines = text.substr(end + 1);
    text = text.substr(0, end);
  }
  Result<job::Job> job = job::parse_job(text, "x.toml");
  if (!job.ok()) {
    TR_CHECK(job.status().message().starts_with("x.toml:"), "{}", job.status().to_string());
    return false;
  }
  bool taken = true;
  while (!lines.empty() && taken) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    taken = job::set_job_key(*job, line).ok();
  }
  const bool right = job::check_job(*job).ok();
  // Writing and reading again costs many times the reading: every eighth input, chosen by its content.
  if (crc32c(bytes) % 8 != 0) return taken && right;
  const std::string written = job::to_toml(*job);
  const Result<job::Job> second = job::parse_job(written, "again.toml");
  TR_CHECK(second.ok(), "{}", second.status().to_string());
  TR_CHECK(job::to_toml(*second) == written);
  TR_CHECK(job::diff_jobs(*job, *second).empty(), "{}", job::diff_jobs(*job, *second));
  TR_CHECK(job::check_job(*second).ok() == right, "{}", job::check_job(*second).to_string());
  return taken && right;
}

}  // namespace trireme::train
