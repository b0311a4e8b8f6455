// Options as job keys: those of rows, and those of the job itself.
#pragma once

#include <vector>

#include "trireme/job/job.h"

namespace trireme::job {

// `fields` with the options at their places.
std::vector<JobKey> with_options(std::span<const JobKey> fields);

}  // namespace trireme::job
