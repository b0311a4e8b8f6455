#include "trireme/cost/topology_json.h"

#include <array>
#include <charconv>

#include "trireme/cost/field_reader.h"

namespace trireme::cost {
namespace {

constexpr std::array<const char*, 3> kSpreads{"first", "hash", "destination"};

struct LinkFields {
  LinkModel model;
  double jitter = 0;
};

void read_link_fields(FieldReader& r, LinkFields& l) {
  r.read_duration("latency", l.model.latency_ns);
  r.read_bandwidth("bandwidth", l.model.bytes_per_second);
  r.read_duration("overhead", l.model.message_overhead_ns);
  if (r.read("jitter", l.jitter) && !(l.jitter >= 0 && l.jitter <= 100))
    r.fail("jitter", fmt::format("{}", l.jitter), "0..100");
}

void read_link(FieldReader& r, const char* key, LinkFields& l) {
  r.read_object(key, [&](const Json& json, std::string path) {
    FieldReader fields(json, std::move(path));
    read_link_fields(fields, l);
    return fields.finish();
  });
}

void read_machine_fields(FieldReader& r, MachineModel& m) {
  r.read("name", m.name);
  if (r.read("cores", m.cores) && m.cores < 1) r.fail("cores", fmt::format("{}", m.cores), "1 or more");
  double gflops = m.flops_per_second_per_core * 1e-9;
  if (r.read("gflops_per_core", gflops) && !(gflops > 0))
    r.fail("gflops_per_core", fmt::format("{}", gflops), "more than 0");
  if (r.has("gflops_per_core")) m.flops_per_second_per_core = gflops * 1e9;
  r.read_bandwidth("memory", m.bytes_per_second);
  r.read_duration("op_overhead", m.op_overhead_ns);
  if (r.read("speed", m.speed) && !(m.speed > 0)) r.fail("speed", fmt::format("{}", m.speed), "more than 0");
}

void read_spread(FieldReader& r, Spread& spread) {
  std::string name = kSpreads[static_cast<std::size_t>(spread)];
  if (!r.read("spread", name)) return;
  for (std::size_t i = 0; i < kSpreads.size(); ++i)
    if (name == kSpreads[i]) {
      spread = static_cast<Spread>(i);
      return;
    }
  r.fail("spread", "'" + name + "'", "first, hash or destination");
}

// "m3": machine 3, "s0": the first switch.
void read_vertex(FieldReader& r, const char* key, const Topology& t, std::int32_t& vertex) {
  std::string text;
  if (!r.read(key, text) || !r.has(key)) return;
  int number = -1;
  const bool machine = !text.empty() && text[0] == 'm', is_switch = !text.empty() && text[0] == 's';
  if (machine || is_switch) {
    const auto [at, failure] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
    if (failure != std::errc() || at != text.data() + text.size()) number = -1;
  }
  const int limit = machine ? t.num_machines() : static_cast<int>(t.switch_level.size());
  if (number < 0 || number >= limit) {
    std::string expected = fmt::format("a machine m0..m{}", t.num_machines() - 1);
    if (!t.switch_level.empty()) expected += fmt::format(" or a switch s0..s{}", t.switch_level.size() - 1);
    r.fail(key, "'" + text + "'", expected);
    return;
  }
  vertex = machine ? number : t.num_machines() + number;
}

// What a maker reads its part of the file with.
struct Making {
  FieldReader& fields;
  int num_machines;
  MachineModel machine;
  LinkFields link;
};

Result<Topology> finish(Making& m, Result<Topology> made) {
  TR_RETURN_IF_ERROR(m.fields.finish());
  if (made.ok() && m.link.jitter > 0) {
    made->jitter = m.link.jitter;
    for (TopologyLink& l : made->links) l.jitter = m.link.jitter;
  }
  return made;
}

Status need_machines(Making& m) {
  TR_RETURN_IF_ERROR(m.fields.finish());
  if (m.num_machines > 0) return {};
  return error(Code::kInvalid, "[cluster] machines: got none, expected how many machines there are");
}

Result<Topology> make_single_switch(Making& m) {
  TR_RETURN_IF_ERROR(need_machines(m));
  return finish(m, Topology::single_switch(m.num_machines, m.machine, m.link.model));
}

Result<Topology> make_two_level(Making& m) {
  TwoLevelSpec spec;
  spec.per_rack = 16;
  m.fields.read("per_rack", spec.per_rack);
  m.fields.read("oversubscription", spec.oversubscription);
  m.fields.read_duration("uplink_latency", spec.uplink_latency_ns);
  TR_RETURN_IF_ERROR(need_machines(m));
  spec.num_machines = m.num_machines;
  return finish(m, two_level(spec, m.machine, m.link.model));
}

Result<Topology> make_fat_tree(Making& m) {
  FatTreeSpec spec;
  m.fields.read("k", spec.k);
  m.fields.read_duration("switch_latency", spec.switch_latency_ns);
  read_spread(m.fields, spec.spread);
  TR_RETURN_IF_ERROR(need_machines(m));
  spec.num_machines = m.num_machines;
  return finish(m, fat_tree(spec, m.machine, m.link.model));
}

void read_pcie(FieldReader& r, PcieTreeSpec& spec) {
  r.read("sockets", spec.num_sockets);
  r.read("switches_per_socket", spec.switches_per_socket);
  r.read("per_switch", spec.per_switch);
  LinkFields lane{spec.lane, 0}, between{spec.between, 0};
  read_link(r, "lane", lane);
  read_link(r, "between", between);
  spec.lane = lane.model;
  spec.between = between.model;
}

// Topologies that have as many machines as their parameters say.
Result<Topology> check_count(const Making& m, Result<Topology> made) {
  if (made.ok() && m.num_machines > 0 && made->num_machines() != m.num_machines)
    return error(Code::kInvalid,
                 "[cluster] machines: got {}, expected {}, which is what topology {} has here",
                 m.num_machines, made->num_machines(), made->name);
  return made;
}

Result<Topology> make_pcie_tree(Making& m) {
  PcieTreeSpec spec;
  read_pcie(m.fields, spec);
  return check_count(m, finish(m, pcie_tree(spec, m.machine)));
}

Result<Topology> make_dgx1(Making& m) {
  Dgx1Spec spec;
  LinkFields nvlink{spec.nvlink, 0};
  read_link(m.fields, "nvlink", nvlink);
  read_pcie(m.fields, spec.pcie);
  spec.nvlink = nvlink.model;
  return check_count(m, finish(m, dgx1(spec, m.machine)));
}

Result<Topology> make_torus(Making& m) {
  std::vector<int> sizes;
  m.fields.read("sizes", sizes);
  // As square as it goes, when the number of machines is all we know.
  if (sizes.empty() && m.num_machines > 0) {
    int side = 1;
    for (int d = 2; d * d <= m.num_machines; ++d)
      if (m.num_machines % d == 0) side = d;
    sizes = {side, m.num_machines / side};
  }
  return check_count(m, finish(m, torus(sizes, m.machine, m.link.model)));
}

Result<Topology> make_dragonfly(Making& m) {
  DragonflySpec spec;
  m.fields.read("groups", spec.num_groups);
  m.fields.read("routers", spec.routers);
  m.fields.read("per_router", spec.per_router);
  m.fields.read_duration("local_latency", spec.local_latency_ns);
  m.fields.read_duration("global_latency", spec.global_latency_ns);
  return check_count(m, finish(m, dragonfly(spec, m.machine, m.link.model)));
}

Result<Topology> make_slim_fly(Making& m) {
  SlimFlySpec spec;
  m.fields.read("q", spec.q);
  m.fields.read("per_router", spec.per_router);
  m.fields.read_duration("switch_latency", spec.switch_latency_ns);
  if (m.num_machines > 0) spec.num_machines = m.num_machines;
  return finish(m, slim_fly(spec, m.machine, m.link.model));
}

Status add_cable(Topology& t, const LinkFields& base, const Json& json, std::string path, bool both_ways) {
  FieldReader r(json, std::move(path));
  LinkFields l = base;
  TopologyLink link;
  link.from = link.to = -1;
  read_vertex(r, "from", t, link.from);
  read_vertex(r, "to", t, link.to);
  read_link_fields(r, l);
  TR_RETURN_IF_ERROR(r.finish());
  if (link.from < 0 || link.to < 0)
    return error(Code::kInvalid, "[cluster] {}: got no end, expected a vertex such as \"m0\" or \"s0\"",
                 r.path_of(link.from < 0 ? "from" : "to"));
  link.model = l.model;
  link.jitter = l.jitter;
  t.links.push_back(link);
  if (both_ways) {
    std::swap(link.from, link.to);
    t.links.push_back(link);
  }
  return {};
}

Result<Topology> make_explicit(Making& m) {
  Topology t;
  t.name = "explicit";
  int num_switches = 0;
  std::vector<int> levels, groups;
  m.fields.read("switches", num_switches);
  m.fields.read("switch_levels", levels);
  m.fields.read("groups", groups);
  m.fields.read("machines_forward", t.machines_forward);
  m.fields.read("title", t.name);
  read_spread(m.fields, t.spread);
  if (m.num_machines <= 0) m.fields.fail("machines", "none", "how many machines there are");
  if (num_switches < 0 || num_switches > 1 << 20)
    m.fields.fail("switches", fmt::format("{}", num_switches), "0 or more");
  if (!levels.empty() && static_cast<int>(levels.size()) != num_switches)
    m.fields.fail("switch_levels", fmt::format("{} levels", levels.size()), fmt::format("{}", num_switches));
  if (!groups.empty() && static_cast<int>(groups.size()) != m.num_machines)
    m.fields.fail("groups", fmt::format("{} groups", groups.size()), fmt::format("{}", m.num_machines));
  if (m.num_machines > 0) t.machines.assign(static_cast<std::size_t>(m.num_machines), m.machine);
  t.switch_level.assign(levels.begin(), levels.end());
  if (levels.empty() && num_switches > 0) t.switch_level.assign(static_cast<std::size_t>(num_switches), 0);
  t.group.assign(groups.begin(), groups.end());
  const auto add = [&](bool both_ways) {
    return [&, both_ways](const Json& json, std::string path) {
      return add_cable(t, m.link, json, std::move(path), both_ways);
    };
  };
  m.fields.read_list("cables", add(true));
  m.fields.read_list("links", add(false));
  TR_RETURN_IF_ERROR(m.fields.finish());
  if (t.links.empty())
    return error(Code::kInvalid, "[cluster] cables: got none, expected the cables of an explicit topology");
  return t;
}

struct Maker {
  const char* name;
  Result<Topology> (*make)(Making& m);
};
constexpr std::array<Maker, 9> kMakers{{{"single-switch", make_single_switch},
                                        {"two-level", make_two_level},
                                        {"fat-tree", make_fat_tree},
                                        {"pcie-tree", make_pcie_tree},
                                        {"dgx1", make_dgx1},
                                        {"torus", make_torus},
                                        {"dragonfly", make_dragonfly},
                                        {"slim-fly", make_slim_fly},
                                        {"explicit", make_explicit}}};

Result<Topology> make(Making& m, const std::string& name) {
  for (const Maker& maker : kMakers)
    if (name == maker.name) return maker.make(m);
  const Result<const Preset*> preset = find_preset(name);
  if (!preset.ok()) {
    std::string known;
    for (const std::string& n : topology_names()) known += known.empty() ? n : ", " + n;
    return error(Code::kInvalid, "[cluster] topology: got '{}', expected one of {}", name, known);
  }
  if (m.fields.has("link")) m.fields.fail("link", "a table", "none: preset " + name + " has its own links");
  TR_RETURN_IF_ERROR(need_machines(m));
  return (*preset)->make(m.num_machines, m.machine);
}

// Differences of single machines from the model of all.
Status apply_override(Topology& t, const Json& json, std::string path) {
  FieldReader r(json, std::move(path));
  std::vector<int> machines;
  if (r.read("machines", machines) && machines.empty()) r.fail("machines", "none", "numbers of machines");
  for (const int i : machines)
    if (i < 0 || i >= t.num_machines())
      r.fail("machines", fmt::format("{}", i), fmt::format("0..{}", t.num_machines() - 1));
  MachineModel probe;
  read_machine_fields(r, probe);  // for its errors
  TR_RETURN_IF_ERROR(r.finish());
  for (const int i : machines) {
    FieldReader again(json, "");
    read_machine_fields(again, t.machines[static_cast<std::size_t>(i)]);
  }
  return {};
}

}  // namespace

std::vector<std::string> topology_names() {
  std::vector<std::string> names;
  for (const Maker& m : kMakers) names.emplace_back(m.name);
  for (const Preset& p : topology_presets())
    if (std::string_view(p.name) != "dgx1") names.emplace_back(p.name);  // a maker by the same name
  return names;
}

Result<Topology> topology_from_json(const Json& json, int num_machines) {
  FieldReader r(json, "");
  std::string name = "single-switch";
  Making m{r, num_machines, {}, {}};
  LinkFields local{Topology{}.local, 0};
  r.read("topology", name);
  if (r.read("machines", m.num_machines) && r.has("machines") &&
      (m.num_machines < 1 || m.num_machines > 1 << 20))
    r.fail("machines", fmt::format("{}", m.num_machines), "1..1048576");
  r.read_object("machine", [&](const Json& j, std::string path) {
    FieldReader fields(j, std::move(path));
    read_machine_fields(fields, m.machine);
    return fields.finish();
  });
  read_link(r, "link", m.link);
  read_link(r, "local", local);
  std::vector<std::pair<Json, std::string>> overrides;
  r.read_list("override", [&](const Json& j, std::string path) {
    overrides.emplace_back(j, std::move(path));
    return Status();
  });
  TR_ASSIGN_OR_RETURN(Topology t, make(m, name));
  t.local = local.model;
  for (auto& [j, path] : overrides) TR_RETURN_IF_ERROR(apply_override(t, j, std::move(path)));
  TR_RETURN_IF_ERROR(check_topology(t));
  return t;
}

}  // namespace trireme::cost
