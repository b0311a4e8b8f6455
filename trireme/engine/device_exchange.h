// How the workers of a lock-step job add gradients that are on GPUs (parallel.device_collectives).
#pragma once

#include "trireme/comm/device/axis_exchange.h"
#include "trireme/comm/device/device_sum.h"
#include "trireme/prepare/prepared.h"

namespace trireme::engine {

// Where the ranks of a job are.
struct Nearness {
  bool one_host = false, one_process = false;
  // By their transport; `workers`: which worker each rank belongs to, where some have several.
  static Nearness of(std::string_view transport, const std::vector<int>& workers);
};

// Every worker calls it. Null: the model does not stay on a GPU, one shard has nothing to add, or gradients
// pass through the host.
runtime::Task<Result<std::shared_ptr<comm::DeviceSum>>> make_device_exchange(
    runtime::Runtime& rt, const job::Job& job, Nearness ranks, comm::Group& group,
    const prepare::Prepared& prepared);

// The same of activations along the model axis: every rank of the line `model` calls it. Null: the graphs are
// not for a GPU or have no such axis, or operands pass through the host.
runtime::Task<Result<std::shared_ptr<comm::AxisExchange>>> make_model_exchange(
    runtime::Runtime& rt, const job::Job& job, Nearness ranks, comm::Group* model,
    const prepare::Prepared& prepared, int shards_of_rank);

}  // namespace trireme::engine
