#include "trireme/cost/rates.h"

#include <algorithm>

#include "trireme/cost/quantity.h"

namespace trireme::cost {

Result<LinkModel> parse_link(std::string_view text) {
  LinkModel link;
  int field = 0;
  for (std::size_t at = 0; at <= text.size(); ++field) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    if (field == 0) {
      TR_ASSIGN_OR_RETURN(link.bytes_per_second, parse_bandwidth(part));
    } else if (field < 3) {
      TR_ASSIGN_OR_RETURN(const TimeNs time, parse_duration(part));
      (field == 1 ? link.latency_ns : link.message_overhead_ns) = time;
    } else {
      return error(Code::kInvalid, "[cost] link: got '{}', expected BANDWIDTH[,LATENCY[,OVERHEAD]]", text);
    }
  }
  return link;
}

WorkSeconds Rates::seconds(const OpCost& cost, const Work& work, int threads, int strands,
                           int at_once) const {
  const bool is_known = !work.empty() || strands == 0;
  if (op_times == nullptr || !is_known) return {to_seconds(compute_time(cost, machine, threads)), 0};
  return work_seconds(work, strands, *op_times, ranks_at_once * at_once, machine, threads);
}

Rates host_rates(const Calibration* calibration, const HostShare& share) {
  Rates rates;
  if (calibration != nullptr) rates.machine = calibration->machine;
  const int ranks = std::max(1, share.ranks_on_host), host_cores = std::max(1, share.num_cores);
  const double one_core = rates.machine.bytes_per_second,
               whole = calibration != nullptr ? calibration->host_bytes_per_second : 0;
  rates.machine.cores = std::max(1, share.cores_per_rank);
  const int busy = std::min(ranks, host_cores);
  rates.ranks_at_once = busy;
  if (calibration != nullptr && !calibration->op_times.is_empty())
    rates.op_times = std::make_shared<OpTimes>(calibration->op_times);
  // Nobody has more than a core's rate per thread, and all together no more than the memory gives.
  if (whole > 0) rates.machine.bytes_per_second = std::min(one_core * rates.machine.cores, whole / busy);
  // Cores that are busy at the same time have lower clocks, and less of the caches each.
  const BusyCores* const measured =
      calibration != nullptr ? calibration->find_busy(std::min(host_cores, busy * rates.machine.cores))
                             : nullptr;
  if (measured != nullptr) {
    rates.machine.flops_per_second_per_core = measured->flops_per_second_per_core;
    rates.machine.bytes_per_second =
        std::min(one_core * rates.machine.cores, measured->bytes_per_second / busy);
  }
  if (ranks > host_cores) rates.machine.speed *= static_cast<double>(host_cores) / ranks;
  rates.comm = CommModel(LinkModel{}, rates.machine);
  rates.calibrated = calibration != nullptr;
  if (share.link != nullptr) {
    rates.comm.link = *share.link;
    return rates;
  }
  if (share.transport == "none") return rates;
  const auto use = [&](std::string_view name) {
    if (calibration == nullptr) return false;
    auto model = comm_model(*calibration, name, ranks);
    if (model.ok()) rates.comm = *model;
    return model.ok();
  };
  rates.direct = share.transport == "shm" && use("direct");
  if (!rates.direct && !use(share.transport)) {
    rates.calibrated = false;
    if (share.transport != "tcp") rates.comm.link = rates.comm.local;
    rates.comm.ranks_per_host = ranks;
  }
  rates.comm.machine.cores = host_cores;
  return rates;
}

}  // namespace trireme::cost
