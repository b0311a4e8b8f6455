#include "trireme/train/device_exchange.h"

#include "trireme/train/slots.h"

namespace trireme::train {

runtime::Task<Result<std::shared_ptr<comm::DeviceSum>>> make_device_exchange(const RankContext& context,
                                                                             comm::Group& group,
                                                                             const Prepared& prepared) {
  const plan::Plan& plan = prepared.plan;
  const std::string& way = context.job.parallel.device_collectives;
  const bool one_shard = plan.logical_shards == 1 && way != "nccl";
  if (!prepared.resident || one_shard || way == "staged") co_return std::shared_ptr<comm::DeviceSum>();
  comm::DeviceSumOptions options;
  options.device = prepared.device;
  options.way = way;
  options.one_process = context.transport == "inproc";
  options.one_host = options.one_process || context.transport == "shm";
  options.same_bits = context.job.train.logical_shards > 0;
  for (const plan::Bucket& bucket : plan.buckets) options.vector_elems.push_back(bucket.num_elems);
  options.leaf_runs = plan.owners;
  options.num_leaves = plan.logical_shards;
  options.deadline = context.job.parallel.deadline_ms * kMilli;
  options.setup_slot = kSlotDevices;
  TR_CO_ASSIGN_OR_RETURN(std::unique_ptr<comm::DeviceSum> sum,
                         co_await comm::make_device_sum(*context.rt, group, std::move(options)));
  if (sum != nullptr && group.rank() == 0 && group.world() > 1)
    context.rt->log(fmt::format("gradients of {} workers are added on GPUs: {}", group.world(), sum->way()));
  co_return std::shared_ptr<comm::DeviceSum>(std::move(sum));
}

}  // namespace trireme::train
