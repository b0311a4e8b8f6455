#include "trireme/train/balance.h"

#include <algorithm>
#include <array>

#include "trireme/plan/slots.h"

namespace trireme::train {

using collective::LeafRun;

namespace {

constexpr double kPieceFlops = 2e7;
constexpr int kPieces = 5;            // the fastest counts: the others met something else on their way
constexpr double kMuchFaster = 1.25;  // less is noise

// As many multiplications as additions, in registers.
void multiply_and_add() {
  std::array<float, 16> sums{};
  volatile float factor = 0.999F;
  const float f = factor;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kPieceFlops) / 32; ++i)
    for (float& sum : sums) sum = sum * f + 1;
  volatile float sink = 0;
  for (const float sum : sums) sink = sink + sum;
}

}  // namespace

runtime::Task<Result<std::vector<double>>> measure_speeds(runtime::Runtime& rt, comm::Group& group) {
  TimeNs least = kForever;
  const bool counts = rt.is_virtual();  // time is the cost there
  for (int i = 0; i < kPieces; ++i) {
    const TimeNs began = rt.now();
    co_await rt.compute(
        {.flops = kPieceFlops, .bytes = 0},
        [counts](runtime::ComputeContext&) {
          if (!counts) multiply_and_add();
        },
        1, "speed of a rank");
    least = std::min(least, rt.now() - began);
  }
  TR_CO_ASSIGN_OR_RETURN(const Tensor all, Tensor::allocate(cpu_device(), {DType::kF64, {group.world()}}));
  const std::span<double> seconds = all.values<double>();
  const auto rank = static_cast<std::size_t>(group.rank());
  seconds[rank] = to_seconds(std::max<TimeNs>(least, 1));
  const Tensor in_place;
  // Ranks of a host are as fast as its fastest one, once all of them know these: the others have taken turns
  // with it on the same cores.
  for (int round = 0; round < (counts ? 1 : 2); ++round) {
    comm::Call call;
    call.slot = plan::kSlotSpeeds;
    call.iteration = static_cast<std::uint16_t>(round);
    call.label = "speeds of ranks";
    TR_CO_RETURN_IF_ERROR(co_await group.allgather(std::move(call), in_place, all));
    for (int peer = 0; peer < group.world() && !counts && round == 0; ++peer)
      if (peer == group.rank() || group.same_host(peer))
        seconds[rank] = std::min(seconds[rank], seconds[static_cast<std::size_t>(peer)]);
  }
  std::vector<double> speeds;
  for (const double own : seconds) speeds.push_back(seconds[0] / own);
  const auto [slowest, fastest] = std::minmax_element(speeds.begin(), speeds.end());
  if (*fastest < kMuchFaster * *slowest) speeds.clear();
  co_return speeds;
}

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
