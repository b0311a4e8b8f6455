// The cost model's values as JSON, for calibration files and plans.
#pragma once

#include "trireme/base/json.h"
#include "trireme/cost/cost.h"

namespace trireme::cost {

Json to_json(const MachineModel& machine);
Json to_json(const LinkModel& link);
// Reject missing keys and rates that are not positive.
Result<MachineModel> machine_from_json(const Json& json);
Result<LinkModel> link_from_json(const Json& json);

}  // namespace trireme::cost
