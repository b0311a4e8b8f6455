// Fields of plan.json about who computes and holds what, and the check that no field is unknown.
#pragma once

#include "trireme/plan/plan.h"

namespace trireme::plan {

Json mesh_to_json(const Plan& plan);
Json logical_mesh_to_json(const Plan& plan);
Json owners_to_json(const Plan& plan);
Json layouts_to_json(const Plan& plan);
Json cuts_to_json(const Plan& plan);  // null where there is one tile
// With several segments.
Json pipeline_to_json(const Plan& plan);
Json slots_to_json(const Plan& plan);
Json timetable_to_json(const Plan& plan);

// Cells, owners and layouts of version 2.
Status read_cells(const Json& json, Plan& plan);
// The same of version 1: every worker has the whole model.
Status read_whole_replicas(const Json& json, Plan& plan);
// `key`: the object that holds the fields; null: version 1, which has them beside the others. Version 1 names
// no timetable: the rule tells it.
Status read_timetable(const char* key, const Json& json, Plan& plan);

// kCorrupt where the slots are not those that this version numbers.
Status check_slots(const Json& json, const Plan& plan);

// kCorrupt where `given` has a field that `known`, the same plan written again, has not.
Status check_fields(const Json& given, const Json& known, const std::string& path = "");

}  // namespace trireme::plan
