#include "tests/train/coded_links.h"

#include <gtest/gtest.h>

#include "tests/train/tiny_jobs.h"

namespace trireme::train::testing {

job::Job coded_by_class(const std::string& rule, const std::string& codec) {
  job::Job job = by_class_job(rule, 4);
  job.parallel.codec = codec;
  job.parallel.codec_options.set("least", 16);  // the model is tiny
  if (codec != "factors") job.parallel.codec_options.set("dense_steps", 0);
  if (codec == "topk" || codec == "randomk" || codec == "threshold")
    job.parallel.codec_options.set("fraction", 0.1);
  return job;
}

record::Summary simulate_coded(const job::Job& job, bool phantom) {
  start::SimulateOptions options;
  options.job = job;
  options.machine.cores = 1;
  options.latency_jitter = 4;  // it is not always the same one who is late
  options.phantom = phantom;
  const start::SimulateReport report = start::simulate_training(options, tiny_pictures(400, 80));
  for (std::size_t r = 0; r < report.ranks.size(); ++r)
    EXPECT_TRUE(report.ranks[r].ok()) << "rank " << r << ": " << report.ranks[r].status().to_string();
  return report.ranks[0].ok() ? *report.ranks[0] : record::Summary{};
}

}  // namespace trireme::train::testing
