#include "trireme/engine/device_exchange.h"

#include "trireme/job/job_parts.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/coded_buckets.h"

namespace trireme::engine {

runtime::Task<Result<std::shared_ptr<comm::DeviceSum>>> make_device_exchange(
    runtime::Runtime& rt, const job::Job& job, std::string_view transport, comm::Group& group,
    const prepare::Prepared& prepared) {
  const plan::Plan& plan = prepared.plan;
  const std::string& method = job.parallel.device_collectives;
  const bool one_shard = plan.logical_shards == 1 && method != "nccl";
  const bool coded = !prepared.sending.is(job::Sending::Kind::kDense);
  if (!prepared.resident || (!coded && (one_shard || method == "staged")))
    co_return std::shared_ptr<comm::DeviceSum>();
  comm::DeviceSumOptions options;
  options.device = prepared.device;
  options.method = method;
  options.one_process = transport == "inproc";
  options.one_host = options.one_process || transport == "shm";
  options.same_bits = job.train.logical_shards > 0;
  options.coding = job::coding_of(job, prepared.sending);
  for (const plan::Bucket& bucket : plan.buckets) {
    options.vector_elems.push_back(bucket.num_elems);
    options.packings.push_back(prepare::packing_of(bucket, prepared.parameters, options.coding.least_elems));
  }
  options.leaf_runs = plan.owners;
  options.num_leaves = plan.logical_shards;
  options.deadline = job.parallel.deadline_ms * kMilli;
  options.setup_slot = plan::kSlotDevices;
  TR_CO_ASSIGN_OR_RETURN(std::unique_ptr<comm::DeviceSum> sum,
                         co_await comm::make_device_sum(rt, group, std::move(options)));
  if (sum != nullptr && group.rank() == 0 && group.world() > 1)
    rt.log(fmt::format("gradients of {} workers are added on GPUs: {}", group.world(), sum->method()));
  co_return std::shared_ptr<comm::DeviceSum>(std::move(sum));
}

}  // namespace trireme::engine
