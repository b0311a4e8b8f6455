#include "trireme/plan/plan_fields.h"

#include "trireme/base/json_numbers.h"
#include "trireme/plan/slots.h"

namespace trireme::plan {
namespace {

using collective::LeafRun;
using Runs = std::vector<LeafRun>;

Json runs_to_json(const Runs& runs) {
  Json json = Json::array();
  for (const LeafRun& run : runs) json.push_back({run.first, run.count});
  return json;
}

Result<Runs> runs_from_json(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array())
    return error(Code::kCorrupt, "[plan] '{}' is not a list of pairs [first, count]", key);
  Runs out;
  for (const Json& pair : *it) {
    if (!pair.is_array() || pair.size() != 2)
      return error(Code::kCorrupt, "[plan] '{}' holds something that is no pair [first, count]", key);
    LeafRun run;
    TR_ASSIGN_OR_RETURN(run.first, json_whole<std::int32_t>(pair[0], key));
    TR_ASSIGN_OR_RETURN(run.count, json_whole<std::int32_t>(pair[1], key));
    out.push_back(run);
  }
  return out;
}

Status as_corrupt(const Status& status) {
  return status.ok() ? status : Status(Code::kCorrupt, std::string(status.message()));
}

// An axis of one coordinate is left out.
Status read_axis(const Json& owners, const char* axis, Runs& runs) {
  if (!owners.contains(axis)) return {};
  TR_ASSIGN_OR_RETURN(runs, runs_from_json(owners, axis));
  return {};
}

// Owners make the mesh; the field says it again, for people.
Status check_mesh_field(const Json& json, const Plan& plan) {
  TR_ASSIGN_OR_RETURN(const Json axes, json_get<Json>(json, "mesh"));
  parallel::Mesh mesh;
  for (const Json& axis : axes) {
    parallel::Axis& added = mesh.axes.emplace_back();
    TR_ASSIGN_OR_RETURN(added.name, json_get<std::string>(axis, "axis"));
    TR_ASSIGN_OR_RETURN(added.size, json_get_whole<int>(axis, "size"));
  }
  if (mesh == plan.mesh()) return {};
  return error(Code::kCorrupt, "[plan] 'mesh' is {}, but 'owners' make {}", axes.dump(),
               mesh_to_json(plan).dump());
}

Status read_layouts(const Json& json, Plan& plan) {
  TR_ASSIGN_OR_RETURN(const auto texts, (json_get<std::map<std::string, std::string>>(json, "layouts")));
  for (const auto& [name, text] : texts) {
    const Result<parallel::Layout> layout = parallel::Layout::parse(text);
    if (!layout.ok()) return as_corrupt(layout.status());
    if (layout->axes.size() != plan.mesh().axes.size())
      return error(Code::kCorrupt, "[plan] 'layouts': '{}' of {} has {} axes, the mesh {}", text, name,
                   layout->axes.size(), plan.mesh().axes.size());
    plan.layouts[name] = *layout;
  }
  return {};
}

Json options_to_json(const parallel::StoredOptions& cuts) {
  return {{"options", cuts.options}, {"nodes", cuts.nodes_text()}};
}

Status read_options(const Json& cuts, parallel::StoredOptions& to) {
  TR_ASSIGN_OR_RETURN(to.options, json_get<std::vector<std::string>>(cuts, "options"));
  TR_ASSIGN_OR_RETURN(const std::string nodes, json_get<std::string>(cuts, "nodes"));
  TR_ASSIGN_OR_RETURN(to.nodes, parallel::StoredOptions::parse_nodes(nodes));
  return {};
}

Status read_cuts(const Json& json, const char* graph, parallel::StoredOptions& to) {
  TR_ASSIGN_OR_RETURN(const Json cuts, json_get<Json>(json, graph));
  return read_options(cuts, to);
}

Json list_to_json(const std::vector<parallel::StoredOptions>& of_segments) {
  Json list = Json::array();
  for (const parallel::StoredOptions& cuts : of_segments) list.push_back(options_to_json(cuts));
  return list;
}

Status read_list(const Json& json, const char* graph, std::int32_t segments,
                 std::vector<parallel::StoredOptions>& to) {
  TR_ASSIGN_OR_RETURN(const Json list, json_get<Json>(json, graph));
  if (!list.is_array() || static_cast<std::int32_t>(list.size()) != segments)
    return error(Code::kCorrupt, "[plan] '{}' has {} entries, expected one per segment: {}", graph,
                 list.size(), segments);
  for (const Json& cuts : list) TR_RETURN_IF_ERROR(read_options(cuts, to.emplace_back()));
  return {};
}

Status read_pipeline(const Json& json, Plan& plan) {
  TR_ASSIGN_OR_RETURN(const Json fields, json_get<Json>(json, "pipeline"));
  TR_ASSIGN_OR_RETURN(plan.pipeline, json_get<std::string>(fields, "kind"));
  TR_ASSIGN_OR_RETURN(plan.virtual_stages, json_get_whole<std::int32_t>(fields, "virtual_stages"));
  TR_ASSIGN_OR_RETURN(plan.segment_cuts, json_get<std::vector<std::string>>(fields, "cuts"));
  if (static_cast<std::int32_t>(plan.segment_cuts.size()) + 1 == plan.segments) return {};
  return error(Code::kCorrupt, "[plan] {} segments begin at {} layers", plan.segments,
               plan.segment_cuts.size());
}

}  // namespace

Json mesh_to_json(const Plan& plan) {
  Json axes = Json::array();
  for (const parallel::Axis& axis : plan.mesh().axes)
    axes.push_back({{"axis", axis.name}, {"size", axis.size}});
  return axes;
}

Json logical_mesh_to_json(const Plan& plan) {
  return {{"shards", plan.logical_shards}, {"tiles", plan.tiles}, {"segments", plan.segments}};
}

Json owners_to_json(const Plan& plan) {
  Json owners = {{parallel::kDataAxis, runs_to_json(plan.owners)}};
  if (plan.tile_owners.size() > 1 || plan.tiles > 1)
    owners[parallel::kModelAxis] = runs_to_json(plan.tile_owners);
  if (plan.segment_owners.size() > 1 || plan.segments > 1)
    owners[parallel::kStageAxis] = runs_to_json(plan.segment_owners);
  return owners;
}

Json layouts_to_json(const Plan& plan) {
  Json layouts = Json::object();
  for (const auto& [name, layout] : plan.layouts) layouts[name] = layout.to_text();
  return layouts;
}

Json cuts_to_json(const Plan& plan) {
  if (plan.tiles == 1) return nullptr;
  Json json{{"train", options_to_json(plan.train_cuts)},
            {"eval", options_to_json(plan.eval_cuts)},
            {"seconds", plan.tile_seconds},
            {"bytes", plan.tile_bytes}};
  if (plan.segments == 1) return json;
  json["segments_train"] = list_to_json(plan.segment_train_cuts);
  json["segments_eval"] = list_to_json(plan.segment_eval_cuts);
  return json;
}

Json pipeline_to_json(const Plan& plan) {
  return {{"kind", plan.pipeline}, {"virtual_stages", plan.virtual_stages}, {"cuts", plan.segment_cuts}};
}

Json slots_to_json(const Plan& plan) {
  const Slots slots{plan.buckets.size()};
  return {{"sum", slots.sum(0)},
          {"second", slots.second_sum(0)},
          {"rest", slots.rest()},
          {"change", slots.change(0)},
          {"change_sizes", slots.change_sizes(0)},
          {"kept_back", kSlotResiduals},
          {"shard_state", kSlotShardState},
          {"trainer", kSlotStartSize}};
}

Json timetable_to_json(const Plan& plan) {
  return {{"kind", timetable_name(plan.timetable)},
          {"overlap", overlap_name(plan.overlap)},
          {"exchange_order", plan.exchange_order}};
}

Status read_cells(const Json& json, Plan& plan) {
  TR_ASSIGN_OR_RETURN(const Json logical, json_get<Json>(json, "logical_mesh"));
  TR_ASSIGN_OR_RETURN(plan.logical_shards, json_get_whole<std::int32_t>(logical, "shards"));
  TR_ASSIGN_OR_RETURN(plan.tiles, json_get_whole<std::int32_t>(logical, "tiles"));
  TR_ASSIGN_OR_RETURN(plan.segments, json_get_whole<std::int32_t>(logical, "segments"));
  TR_ASSIGN_OR_RETURN(const Json owners, json_get<Json>(json, "owners"));
  TR_ASSIGN_OR_RETURN(plan.owners, runs_from_json(owners, parallel::kDataAxis));
  TR_RETURN_IF_ERROR(read_axis(owners, parallel::kModelAxis, plan.tile_owners));
  TR_RETURN_IF_ERROR(read_axis(owners, parallel::kStageAxis, plan.segment_owners));
  if (plan.segments > 1) TR_RETURN_IF_ERROR(read_pipeline(json, plan));
  TR_RETURN_IF_ERROR(as_corrupt(check_owners(plan.cell_owners(), plan.logical_mesh())));
  TR_RETURN_IF_ERROR(check_mesh_field(json, plan));
  if (plan.tiles > 1) {
    TR_ASSIGN_OR_RETURN(const Json cuts, json_get<Json>(json, "cuts"));
    TR_RETURN_IF_ERROR(read_cuts(cuts, "train", plan.train_cuts));
    TR_RETURN_IF_ERROR(read_cuts(cuts, "eval", plan.eval_cuts));
    if (plan.segments > 1) {
      TR_RETURN_IF_ERROR(read_list(cuts, "segments_train", plan.segments, plan.segment_train_cuts));
      TR_RETURN_IF_ERROR(read_list(cuts, "segments_eval", plan.segments, plan.segment_eval_cuts));
    }
    TR_ASSIGN_OR_RETURN(plan.tile_seconds, json_get<double>(cuts, "seconds"));
    TR_ASSIGN_OR_RETURN(plan.tile_bytes, json_get<double>(cuts, "bytes"));
  }
  return read_layouts(json, plan);
}

Status read_whole_replicas(const Json& json, Plan& plan) {
  TR_ASSIGN_OR_RETURN(plan.logical_shards, json_get_whole<std::int32_t>(json, "logical_shards"));
  TR_ASSIGN_OR_RETURN(plan.owners, runs_from_json(json, "owners"));
  TR_RETURN_IF_ERROR(as_corrupt(check_owners(plan.cell_owners(), plan.logical_mesh())));
  TR_ASSIGN_OR_RETURN(const auto texts, (json_get<std::map<std::string, std::string>>(json, "layouts")));
  for (const auto& [name, text] : texts) plan.layouts[name] = parallel::Layout::replicate(plan.mesh());
  return {};
}

Status read_timetable(const char* key, const Json& json, Plan& plan) {
  Json fields = json;
  if (key != nullptr) {
    TR_ASSIGN_OR_RETURN(fields, json_get<Json>(json, key));
    TR_ASSIGN_OR_RETURN(const std::string kind, json_get<std::string>(fields, "kind"));
    const Result<Timetable> found = find_timetable(kind);
    if (!found.ok()) return as_corrupt(found.status());
    plan.timetable = *found;
  }
  TR_ASSIGN_OR_RETURN(const std::string name, json_get<std::string>(fields, "overlap"));
  const Result<Overlap> overlap = find_overlap(name);
  if (!overlap.ok()) return as_corrupt(overlap.status());
  plan.overlap = *overlap;
  TR_ASSIGN_OR_RETURN(plan.exchange_order, json_get_wholes<std::int32_t>(fields, "exchange_order"));
  return {};
}

Status check_slots(const Json& json, const Plan& plan) {
  TR_ASSIGN_OR_RETURN(const Json slots, json_get<Json>(json, "slots"));
  const Json expected = slots_to_json(plan);
  for (const auto& [use, first] : expected.items()) {
    TR_ASSIGN_OR_RETURN(const Slot given, json_get_whole<Slot>(slots, use.c_str()));
    if (first != given)
      return error(Code::kCorrupt, "[plan] 'slots': '{}' begins at {}, expected {} with {} buckets", use,
                   given, first.dump(), plan.buckets.size());
  }
  return {};
}

Status check_fields(const Json& given, const Json& known, const std::string& path) {
  if (given.is_array() && known.is_array())
    for (std::size_t i = 0; i < given.size() && i < known.size(); ++i)
      TR_RETURN_IF_ERROR(check_fields(given[i], known[i], fmt::format("{}{}/", path, i)));
  if (!given.is_object() || !known.is_object()) return {};
  for (const auto& [key, value] : given.items()) {
    if (!known.contains(key))
      return error(Code::kCorrupt, "[plan] field '{}{}' is not known here, or has no place in this plan",
                   path, key);
    TR_RETURN_IF_ERROR(check_fields(value, known[key], path + key + "/"));
  }
  return {};
}

}  // namespace trireme::plan
