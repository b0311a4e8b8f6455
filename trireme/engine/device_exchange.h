// How the workers of a lock-step job add gradients that are on GPUs (parallel.device_collectives).
#pragma once

#include "trireme/agree/agree.h"
#include "trireme/comm/device_sum.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

// Every worker calls it. Null: the model does not stay on a GPU, one shard has nothing to add, or gradients
// pass through the host.
runtime::Task<Result<std::shared_ptr<comm::DeviceSum>>> make_device_exchange(
    runtime::Runtime& rt, const job::Job& job, std::string_view transport, comm::Group& group,
    const prepare::Prepared& prepared);

// What encoders on GPUs keep, between them and the rule's own memory on the host, where checkpoints take it
// from and put it. `sum` may be null. Between steps.
Status fetch_kept(const comm::DeviceSum* sum, const agree::Agreement& rule);
Status put_kept(const comm::DeviceSum* sum, const agree::Agreement& rule);

}  // namespace trireme::engine
