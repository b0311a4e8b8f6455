#include "trireme/cli/cluster_file.h"

#include <algorithm>
#include <sstream>

#include "trireme/cli/faults.h"
#include "trireme/cost/topology_json.h"
#include "trireme/job/toml.h"
#include "trireme/runtime/files.h"
#include "trireme/runtime/virtual/cluster_json.h"

namespace trireme::cli {
namespace {

Json value_of(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json json = Json::object();
    for (const auto& [key, inner] : *table) json[std::string(key.str())] = value_of(inner);
    return json;
  }
  if (const auto* list = node.as_array()) {
    Json json = Json::array();
    for (const auto& inner : *list) json.push_back(value_of(inner));
    return json;
  }
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_boolean()) return v->get();
  std::ostringstream text;  // dates, which no field takes
  text << node.type();
  return text.str();
}

}  // namespace

Result<Json> json_from_toml(std::string_view text, std::string_view source) {
  try {
    const toml::table table = toml::parse(text, source);
    return value_of(table);
  } catch (const toml::parse_error& e) {
    const toml::source_position at = e.source().begin;
    return error(Code::kInvalid, "{}:{}:{}: [cluster] {}", source, at.line, at.column, e.description());
  }
}

namespace {

runtime::Task<Result<Json>> read_file(runtime::Runtime& rt, std::string path) {
  Result<Bytes> bytes = co_await rt.files().read(path);
  if (!bytes.ok()) co_return Status(Code::kInvalid, bytes.status().message());
  if (!path.ends_with(".json")) co_return json_from_toml(as_text(*bytes), path);
  Result<Json> json = parse_json(as_text(*bytes), path);
  if (!json.ok()) co_return Status(Code::kInvalid, json.status().message());
  co_return json;
}

runtime::Task<void> read_into(runtime::Runtime& rt, std::string path, Result<Json>& json) {
  json = co_await read_file(rt, std::move(path));
}

// "10gbit", "10gbit,25us" or "10gbit,25us,2us": bandwidth, latency, overhead per message.
Result<Json> link_from_text(const std::string& text) {
  Json link = Json::object();
  constexpr const char* kKeys[] = {"bandwidth", "latency", "overhead"};
  std::size_t field = 0;
  for (std::size_t at = 0; at <= text.size(); ++field) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (field == std::size(kKeys))
      return error(Code::kInvalid,
                   "[cli] --link: got '{}', expected BANDWIDTH[,LATENCY[,OVERHEAD]] as 10gbit,25us,2us",
                   text);
    link[kKeys[field]] = text.substr(at, end - at);
    at = end + 1;
  }
  return link;
}

Result<Json> cluster_json(const ClusterArgs& args, runtime::RealRuntime& rt) {
  if (!args.cluster.empty()) {
    Result<Json> json = Status(Code::kInternal, "the file was not read");
    rt.run(read_into(rt, args.cluster, json));
    return json;
  }
  TR_ASSIGN_OR_RETURN(Json json, runtime::object_from_text(
                                     args.topology.empty() ? "single-switch" : args.topology, "topology"));
  if (!args.link.empty()) {
    TR_ASSIGN_OR_RETURN(json["link"], link_from_text(args.link));
  }
  return json;
}

}  // namespace

void add_cluster_options(Options& app, ClusterArgs& args) {
  std::string names;
  for (const std::string& name : cost::topology_names()) names += names.empty() ? name : ", " + name;
  auto* topology = app.add_option(
      "--topology", args.topology,
      "Topology: NAME[,KEY=VALUE...], such as two-level,per_rack=8,oversubscription=4; names: " + names);
  auto* link =
      app.add_option("--link", args.link,
                     "Network link of a machine: BANDWIDTH[,LATENCY[,OVERHEAD]], such as 10gbit,25us,2us");
  app.add_option("--cluster", args.cluster, "Cluster file (TOML or .json): topology, machines, links, faults")
      ->type_name("FILE")
      ->excludes(topology)
      ->excludes(link);
  app.add_option("--fault", args.faults,
                 "Inject a fault: KIND,KEY=VALUE,... such as loss,probability=0.01 or "
                 "pause,rank=2,at=1ms,duration=1s; or "
                 "RANK:KIND@SITE:INDEX, such as 1:kill@collective:7");
  app.add_flag("--raw-faults", args.raw_faults,
               "Without the reliable layer: lost, duplicated and corrupted messages reach the ranks");
}

Result<bool> has_size(const ClusterArgs& args, runtime::RealRuntime& rt) {
  TR_ASSIGN_OR_RETURN(const Json json, cluster_json(args, rt));
  return json.is_object() && json.contains("machines");
}

Result<runtime::WorldSpec> load_cluster(const ClusterArgs& args, int num_machines, runtime::RealRuntime& rt) {
  TR_ASSIGN_OR_RETURN(const Json json, cluster_json(args, rt));
  Result<runtime::WorldSpec> world = runtime::world_from_json(json, num_machines);
  if (!world.ok())
    return args.cluster.empty() ? world.status() : world.status().with_prefix(args.cluster + ": ");
  world->network.raw = world->network.raw || args.raw_faults;
  for (const std::string& text : args.faults) {
    if (!text.empty() && text[0] >= '0' && text[0] <= '9') {
      TR_ASSIGN_OR_RETURN(const FaultOption fault, parse_fault(text));
      world->faults.push_back(virtual_fault(fault));
      continue;
    }
    TR_ASSIGN_OR_RETURN(const Json fault, runtime::object_from_text(text, "kind"));
    TR_RETURN_IF_ERROR(runtime::add_fault(*world, fault, "--fault '" + text + "'"));
  }
  return world;
}

}  // namespace trireme::cli
