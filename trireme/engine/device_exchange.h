// How the workers of a lock-step job add gradients that are on GPUs (parallel.device_collectives).
#pragma once

#include "trireme/comm/device/device_sum.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

// Every worker calls it. Null: the model does not stay on a GPU, one shard has nothing to add, or gradients
// pass through the host.
runtime::Task<Result<std::shared_ptr<comm::DeviceSum>>> make_device_exchange(
    runtime::Runtime& rt, const job::Job& job, std::string_view transport, comm::Group& group,
    const prepare::Prepared& prepared);

}  // namespace trireme::engine
