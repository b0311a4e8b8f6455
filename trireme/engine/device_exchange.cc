#include "trireme/engine/device_exchange.h"

#include <algorithm>

#include "trireme/job/job_parts.h"
#include "trireme/parallel/mesh.h"
#include "trireme/plan/slots.h"
#include "trireme/prepare/coded_buckets.h"

namespace trireme::engine {

Nearness Nearness::of(std::string_view transport, const std::vector<int>& workers) {
  const bool one_worker =
      !workers.empty() && std::all_of(workers.begin(), workers.end(), [](int w) { return w == 0; });
  Nearness out;
  out.one_process = transport == "inproc" || one_worker;
  out.one_host = out.one_process || transport == "shm";
  return out;
}

runtime::Task<Result<std::shared_ptr<comm::DeviceSum>>> make_device_exchange(
    runtime::Runtime& rt, const job::Job& job, Nearness ranks, comm::Group& group,
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
  options.one_process = ranks.one_process;
  options.one_host = ranks.one_host;
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

runtime::Task<Result<std::shared_ptr<comm::AxisExchange>>> make_model_exchange(
    runtime::Runtime& rt, const job::Job& job, Nearness ranks, comm::Group* model,
    const prepare::Prepared& prepared, int shards_of_rank) {
  const std::string& method = job.parallel.device_collectives;
  if (prepared.device == nullptr || model == nullptr || method == "staged")
    co_return std::shared_ptr<comm::AxisExchange>();
  comm::AxisExchangeOptions options;
  options.device = prepared.device;
  options.method = method;
  options.axis = parallel::kModelAxis;
  options.one_process = ranks.one_process;
  options.one_host = ranks.one_host;
  options.graphs = {&prepared.train->graph(), &prepared.eval->graph()};
  options.runs_at_once = shards_of_rank;
  options.deadline = job.parallel.deadline_ms * kMilli;
  options.setup_slot = plan::kSlotDevices;
  TR_CO_ASSIGN_OR_RETURN(std::unique_ptr<comm::AxisExchange> exchange,
                         co_await comm::make_axis_exchange(rt, *model, std::move(options)));
  if (exchange != nullptr && model->rank() == 0)
    rt.log(
        fmt::format("activations of {} ranks are exchanged on GPUs: {}", model->world(), exchange->method()));
  co_return std::shared_ptr<comm::AxisExchange>(std::move(exchange));
}

}  // namespace trireme::engine
