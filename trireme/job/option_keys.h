// Options of rows as job keys.
#pragma once

#include <vector>

#include "trireme/job/job.h"

namespace trireme::job {

// `own` with the options of rows at their places.
std::vector<JobKey> with_options(std::span<const JobKey> own);

}  // namespace trireme::job
