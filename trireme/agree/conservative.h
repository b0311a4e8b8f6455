// Conservative subproblems between averages; see conservative.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_conservative(const RuleContext& context);

}  // namespace trireme::agree
