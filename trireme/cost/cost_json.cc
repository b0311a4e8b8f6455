#include "trireme/cost/cost_json.h"

namespace trireme::cost {

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
