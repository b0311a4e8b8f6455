#include "trireme/train/balance.h"
#include "trireme/plan/slots.h"

namespace trireme::train {

using collective::LeafRun;

runtime::Task<Result<std::vector<LeafRun>>> better_owners(runtime::Runtime& rt, comm::Group& group,
                                                          std::int64_t step, plan::WorkerSpeed own,
                                                          const parallel::Mesh& mesh,
                                                          std::vector<LeafRun> owners,
                                                          std::int32_t num_shards) {
  const auto world = static_cast<std::size_t>(group.world());
  if (rt.is_phantom()) co_return std::vector<LeafRun>();  // no numbers travel
  TR_CO_ASSIGN_OR_RETURN(const Tensor all,
                         Tensor::allocate(cpu_device(), {DType::kF64, {group.world() * 2}}));
  double* mine = all.data<double>() + 2 * group.rank();
  mine[0] = own.wave_seconds;
  mine[1] = own.at_once;
  comm::Call call;
  call.step = static_cast<std::uint32_t>(step);
  call.slot = plan::kSlotSpeeds;
  call.label = "speeds of workers";
  const Tensor in_place;
  TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), in_place, all));
  std::vector<plan::WorkerSpeed> by_rank(world);
  for (std::size_t i = 0; i < world; ++i) {
    by_rank[i].wave_seconds = all.data<double>()[2 * i];
    by_rank[i].at_once = static_cast<std::int32_t>(all.data<double>()[2 * i + 1]);
  }
  const std::vector<plan::WorkerSpeed> speeds = plan::replica_speeds(by_rank, mesh);
  std::vector<LeafRun> better = plan::cut_by_speed(num_shards, speeds);
  if (plan::slowest_seconds(owners, speeds) < kWorthwhile * plan::slowest_seconds(better, speeds))
    better.clear();
  co_return better;
}

}  // namespace trireme::train
