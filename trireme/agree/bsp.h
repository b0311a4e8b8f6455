// The bulk-synchronous rule; see bsp.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_bsp(const RuleContext& context);

}  // namespace trireme::agree
