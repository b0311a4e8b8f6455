#include "trireme/cost/cost.h"

#include <algorithm>

namespace trireme::cost {

Topology Topology::single_switch(int num_machines, MachineModel machine, LinkModel link) {
  Topology t;
  t.machines.assign(static_cast<std::size_t>(num_machines), machine);
  t.up = t.down = link;
  return t;
}

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

Json to_json(const MachineModel& m) {
  return {{"name", m.name},
          {"cores", m.cores},
          {"flops_per_second_per_core", m.flops_per_second_per_core},
          {"bytes_per_second", m.bytes_per_second},
          {"op_overhead_ns", m.op_overhead_ns},
          {"speed", m.speed}};
}

Json to_json(const LinkModel& l) {
  return {{"latency_ns", l.latency_ns},
          {"bytes_per_second", l.bytes_per_second},
          {"message_overhead_ns", l.message_overhead_ns}};
}

Result<MachineModel> machine_from_json(const Json& json) {
  MachineModel m;
  TR_ASSIGN_OR_RETURN(m.name, json_get<std::string>(json, "name"));
  TR_ASSIGN_OR_RETURN(m.cores, json_get<int>(json, "cores"));
  TR_ASSIGN_OR_RETURN(m.flops_per_second_per_core, json_get<double>(json, "flops_per_second_per_core"));
  TR_ASSIGN_OR_RETURN(m.bytes_per_second, json_get<double>(json, "bytes_per_second"));
  TR_ASSIGN_OR_RETURN(m.op_overhead_ns, json_get<TimeNs>(json, "op_overhead_ns"));
  TR_ASSIGN_OR_RETURN(m.speed, json_get<double>(json, "speed"));
  if (m.cores < 1 || m.flops_per_second_per_core <= 0 || m.bytes_per_second <= 0 || m.speed <= 0)
    return error(Code::kInvalid, "[cost] machine '{}' has a rate or core count that is not positive", m.name);
  return m;
}

Result<LinkModel> link_from_json(const Json& json) {
  LinkModel l;
  TR_ASSIGN_OR_RETURN(l.latency_ns, json_get<TimeNs>(json, "latency_ns"));
  TR_ASSIGN_OR_RETURN(l.bytes_per_second, json_get<double>(json, "bytes_per_second"));
  TR_ASSIGN_OR_RETURN(l.message_overhead_ns, json_get<TimeNs>(json, "message_overhead_ns"));
  if (l.latency_ns < 0 || l.bytes_per_second <= 0 || l.message_overhead_ns < 0)
    return error(Code::kInvalid, "[cost] a link has a negative latency or a bandwidth that is not positive");
  return l;
}

}  // namespace trireme::cost
