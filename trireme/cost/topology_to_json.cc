#include "trireme/cost/routes.h"
#include "trireme/cost/topology_json.h"

namespace trireme::cost {
namespace {

Json link_fields(const LinkModel& l, double jitter) {
  Json json{
      {"latency", l.latency_ns}, {"bandwidth", l.bytes_per_second}, {"overhead", l.message_overhead_ns}};
  if (jitter > 0) json["jitter"] = jitter;
  return json;
}

Json machine_fields(const MachineModel& m) {
  return {{"name", m.name},
          {"cores", m.cores},
          {"gflops_per_core", m.flops_per_second_per_core * 1e-9},
          {"memory", m.bytes_per_second},
          {"op_overhead", m.op_overhead_ns},
          {"speed", m.speed}};
}

bool is_plain_switch(const Topology& t) {
  return t.links.empty() && t.group.empty() && t.up.bytes_per_second == t.down.bytes_per_second;
}

void add_graph(const Topology& t, Json& json) {
  const auto vertex = [&](std::int32_t v) {
    return v < t.num_machines() ? fmt::format("m{}", v) : fmt::format("s{}", v - t.num_machines());
  };
  constexpr const char* kSpreads[] = {"first", "hash", "destination"};
  json["title"] = t.name;
  json["switches"] = t.num_switches();
  if (!t.switch_level.empty()) json["switch_levels"] = t.switch_level;
  if (!t.group.empty()) json["groups"] = t.group;
  json["spread"] = kSpreads[static_cast<std::size_t>(t.spread)];
  json["machines_forward"] = t.machines_forward;
  json["links"] = Json::array();
  const Routes routes(t);  // a single switch as links
  for (const TopologyLink& l : routes.links()) {
    Json row{{"from", vertex(l.from)}, {"to", vertex(l.to)}};
    row.update(link_fields(l.model, l.jitter));
    json["links"].push_back(std::move(row));
  }
}

}  // namespace

Json to_json(const Topology& t) {
  Json json{{"topology", is_plain_switch(t) ? "single-switch" : "explicit"}, {"machines", t.num_machines()}};
  if (!t.machines.empty()) json["machine"] = machine_fields(t.machines.front());
  if (is_plain_switch(t))
    json["link"] = link_fields(t.up, t.jitter);
  else
    add_graph(t, json);
  json["local"] = link_fields(t.local, 0);
  for (std::size_t i = 1; i < t.machines.size(); ++i) {
    Json fields = machine_fields(t.machines[i]);
    if (fields == json["machine"]) continue;
    Json row{{"machines", i}};
    row.update(fields);
    json["override"].push_back(std::move(row));
  }
  return json;
}

}  // namespace trireme::cost
