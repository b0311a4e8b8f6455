// Jobs that take milliseconds, one per thing a trainer can do, for properties that must hold of all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/data/dataset.h"
#include "trireme/job/job.h"

namespace trireme::train::testing {

// Pictures of 1 x 6 x 6 in 4 classes and texts of 6 out of 9 tokens, from formulas. Learnable.
std::shared_ptr<data::Dataset> tiny_pictures(std::int64_t num_train, std::int64_t num_test,
                                             std::int64_t num_validation = 0);
std::shared_ptr<data::Dataset> tiny_text(std::int64_t num_train, std::int64_t num_test);

// Two layers, momentum; 10 steps of 12 samples in 4 logical shards.
job::Job tiny_job();
// Worker i sees only the classes of its own part: whether replicas really agree (150 steps of plain SGD).
job::Job by_class_job(const std::string& rule, int workers);

struct TinyCase {
  std::string name;  // letters only
  job::Job job;
  std::shared_ptr<const data::Dataset> data;
};
std::vector<TinyCase> tiny_cases();

}  // namespace trireme::train::testing
