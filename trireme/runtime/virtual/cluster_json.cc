#include "trireme/runtime/virtual/cluster_json.h"

#include <array>
#include <charconv>

#include "trireme/cost/field_reader.h"
#include "trireme/cost/topology_json.h"

namespace trireme::runtime {
namespace {

using cost::FieldReader;

template <typename Kind>
struct Row {
  const char* name;
  Kind kind;
};
constexpr std::array<Row<FaultSpec::Kind>, 7> kRankFaults{{{"kill", FaultSpec::Kind::kKill},
                                                           {"pause", FaultSpec::Kind::kPause},
                                                           {"miscall", FaultSpec::Kind::kMiscall},
                                                           {"error", FaultSpec::Kind::kError},
                                                           {"slow", FaultSpec::Kind::kSlow},
                                                           {"mute", FaultSpec::Kind::kMute},
                                                           {"restart", FaultSpec::Kind::kRestart}}};
constexpr std::array<Row<NetworkFault::Kind>, 6> kNetworkFaults{
    {{"loss", NetworkFault::Kind::kLoss},
     {"delay", NetworkFault::Kind::kDelay},
     {"duplicate", NetworkFault::Kind::kDuplicate},
     {"reorder", NetworkFault::Kind::kReorder},
     {"corrupt", NetworkFault::Kind::kCorrupt},
     {"partition", NetworkFault::Kind::kPartition}}};
constexpr std::array<Row<DiskFault::Kind>, 2> kDiskFaults{
    {{"disk-error", DiskFault::Kind::kError}, {"disk-full", DiskFault::Kind::kFull}}};

template <typename Kind, std::size_t N>
const Row<Kind>* find_kind(const std::array<Row<Kind>, N>& rows, const std::string& name) {
  for (const Row<Kind>& row : rows)
    if (name == row.name) return &row;
  return nullptr;
}

std::string kind_names() {
  std::string names;
  const auto add = [&](const auto& rows) {
    for (const auto& row : rows) names += names.empty() ? row.name : fmt::format(", {}", row.name);
  };
  add(kRankFaults);
  add(kNetworkFaults);
  add(kDiskFaults);
  return names;
}

void read_interval(FieldReader& r, TimeNs& at, TimeNs& duration) {
  r.read_duration("at", at);
  r.read_duration("duration", duration);
}

void read_probability(FieldReader& r, double& p) {
  if (r.read("probability", p) && !(p >= 0 && p <= 1)) r.fail("probability", fmt::format("{}", p), "0..1");
}

void check_machines(FieldReader& r, const char* key, const std::vector<int>& machines,
                    const WorldSpec& world) {
  for (const int m : machines)
    if (m < 0 || m >= world.topology.num_machines())
      r.fail(key, fmt::format("{}", m), fmt::format("machines 0..{}", world.topology.num_machines() - 1));
}

Status add_rank_fault(FieldReader& r, FaultSpec::Kind kind, WorldSpec& world) {
  FaultSpec f;
  f.kind = kind;
  r.read("rank", f.runtime);
  r.read("site", f.site);
  r.read("index", f.index);
  TimeNs at = -1;
  read_interval(r, at, f.duration);
  if (r.read("factor", f.factor) && !(f.factor > 0))
    r.fail("factor", fmt::format("{}", f.factor), "more than 0");
  if (f.runtime < 0) r.fail("rank", r.has("rank") ? "a negative one" : "none", "the rank that it strikes");
  if (!f.site.empty() && at >= 0) r.fail("at", "a time and a site", "one of them");
  if (kind == FaultSpec::Kind::kRestart && !r.has("duration"))
    r.fail("duration", "none", "how long until the restart");
  TR_RETURN_IF_ERROR(r.finish());
  f.at = std::max<TimeNs>(0, at);
  world.faults.push_back(std::move(f));
  return {};
}

Status add_network_fault(FieldReader& r, NetworkFault::Kind kind, WorldSpec& world) {
  NetworkFault f;
  f.kind = kind;
  r.read("from", f.from);
  r.read("to", f.to);
  r.read("one_way", f.one_way);
  r.read("link", f.link);
  read_probability(r, f.probability);
  read_interval(r, f.at, f.duration);
  r.read_duration("delay", f.delay);
  check_machines(r, "from", f.from, world);
  check_machines(r, "to", f.to, world);
  const int num_links = world.topology.links.empty() ? 2 * world.topology.num_machines()
                                                     : static_cast<int>(world.topology.links.size());
  if (r.has("link") && (f.link < 0 || f.link >= num_links))
    r.fail("link", fmt::format("{}", f.link), fmt::format("0..{}", num_links - 1));
  TR_RETURN_IF_ERROR(r.finish());
  world.network.faults.push_back(std::move(f));
  return {};
}

Status add_disk_fault(FieldReader& r, DiskFault::Kind kind, WorldSpec& world) {
  DiskFault f;
  f.kind = kind;
  std::vector<int> machines;
  r.read("machine", machines);
  check_machines(r, "machine", machines, world);
  read_probability(r, f.probability);
  read_interval(r, f.at, f.duration);
  r.read_bytes("capacity", f.capacity_bytes);
  TR_RETURN_IF_ERROR(r.finish());
  if (machines.empty()) world.disk_faults.push_back(f);
  for (const int m : machines) {
    f.machine = m;
    world.disk_faults.push_back(f);
  }
  return {};
}

// A number, true or false, a list of numbers, or else a text.
Json value_from_text(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  Json list = Json::array();
  const char *at = text.data(), *const end = text.data() + text.size();
  bool is_list = true;
  while (at != end && is_list) {
    int first = 0, last = 0;
    auto [next, failure] = std::from_chars(at, end, first);
    is_list = failure == std::errc() && next != at;
    last = first;
    if (is_list && next != end && *next == '-') {
      const auto parsed = std::from_chars(next + 1, end, last);
      is_list = parsed.ec == std::errc() && last >= first && last - first < 1 << 20;
      next = parsed.ptr;
    }
    is_list = is_list && (next == end || (*next == '+' && next + 1 != end));
    for (int i = first; is_list && i <= last; ++i) list.push_back(i);
    at = is_list && next != end ? next + 1 : next;
  }
  if (is_list && list.size() == 1) return list[0];
  if (is_list && !list.empty()) return list;
  double number = 0;
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure == std::errc() && stop == end) return number;
  return std::string(text);
}

}  // namespace

Status add_fault(WorldSpec& world, const Json& json, std::string path) {
  FieldReader r(json, path);
  std::string kind;
  r.read("kind", kind);
  if (const auto* row = find_kind(kRankFaults, kind)) return add_rank_fault(r, row->kind, world);
  if (const auto* row = find_kind(kNetworkFaults, kind)) return add_network_fault(r, row->kind, world);
  if (const auto* row = find_kind(kDiskFaults, kind)) return add_disk_fault(r, row->kind, world);
  r.fail("kind", kind.empty() ? "none" : "'" + kind + "'", "one of " + kind_names());
  return r.finish();
}

Result<WorldSpec> world_from_json(const Json& json, int num_machines) {
  WorldSpec world;
  Json topology = json, rest = Json::object();
  for (const char* key : {"fault", "raw_faults", "resend_after", "max_resends", "seed", "jitter"})
    if (json.is_object() && json.contains(key)) {
      rest[key] = json[key];
      topology.erase(key);
    }
  TR_ASSIGN_OR_RETURN(world.topology, cost::topology_from_json(topology, num_machines));
  FieldReader r(rest, "");
  r.read("raw_faults", world.network.raw);
  r.read_duration("resend_after", world.network.resend_after);
  r.read("max_resends", world.network.max_resends);
  r.read("seed", world.seed);
  if (r.read("jitter", world.latency_jitter) && !(world.latency_jitter >= 0 && world.latency_jitter <= 100))
    r.fail("jitter", fmt::format("{}", world.latency_jitter), "0..100");
  if (world.network.resend_after <= 0) r.fail("resend_after", "0", "more");
  if (world.network.max_resends < 0 || world.network.max_resends > 30)
    r.fail("max_resends", fmt::format("{}", world.network.max_resends), "0..30");
  r.read_list("fault", [&](const Json& j, std::string path) { return add_fault(world, j, std::move(path)); });
  TR_RETURN_IF_ERROR(r.finish());
  return world;
}

Result<Json> object_from_text(std::string_view text, const char* name_key) {
  Json json = Json::object();
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const std::size_t equals = part.find('=');
    if (at == 0 && equals == std::string_view::npos && !part.empty()) {
      json[name_key] = std::string(part);
    } else if (equals == std::string_view::npos || equals == 0 || at == 0) {
      return error(Code::kInvalid, "[cluster] {}: got '{}', expected NAME,KEY=VALUE,...", name_key, text);
    } else {
      json[std::string(part.substr(0, equals))] = value_from_text(part.substr(equals + 1));
    }
    at = end + 1;
  }
  return json;
}

}  // namespace trireme::runtime
