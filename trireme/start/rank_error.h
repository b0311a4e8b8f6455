// What log/rank-R.error.json says of a rank that failed (docs/format_checkpoint.md, section 7).
#pragma once

#include "trireme/base/json.h"
#include "trireme/job/roles.h"

namespace trireme::start {

Json rank_error(int rank, const Status& failure, const job::Roles& roles);

}  // namespace trireme::start
