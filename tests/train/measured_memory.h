// What whole runs hold in tensors, as trireme/tensor/host_memory.h counts it; vectors, the samples and the
// messages of transports come from elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trireme/data/dataset.h"
#include "trireme/job/job.h"

namespace trireme::train::testing {

// The most bytes that the process holds at one time while `body` runs, beyond what it had before.
std::int64_t most_bytes_of(const std::function<void()>& body);

// The most bytes that all ranks of a process hold at one time while they run the job.
std::int64_t measured_bytes(const job::Job& job, std::shared_ptr<const data::Dataset> data,
                            const std::string& run_dir = "");

}  // namespace trireme::train::testing
