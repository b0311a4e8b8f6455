#include "trireme/cost/cost.h"

#include <algorithm>

namespace trireme::cost {

TimeNs compute_time(const OpCost& cost, const MachineModel& machine, int threads) {
  const int used = std::clamp(threads, 1, std::max(1, machine.cores));
  const double flop_seconds = cost.flops / (machine.flops_per_second_per_core * used);
  const double byte_seconds = cost.bytes / machine.bytes_per_second;
  const double seconds = std::max(flop_seconds, byte_seconds) / machine.speed;
  return machine.op_overhead_ns + from_seconds(seconds);
}

TimeNs transfer_time(std::uint64_t bytes, const LinkModel& link) {
  return from_seconds(static_cast<double>(bytes) / link.bytes_per_second);
}

}  // namespace trireme::cost
