// Jobs with values of any kind, by chance.
#pragma once

#include "trireme/job/job.h"

namespace trireme::job {

// Half of the keys have another value than the default. It need not make sense.
Job any_job(std::uint64_t seed);

}  // namespace trireme::job
