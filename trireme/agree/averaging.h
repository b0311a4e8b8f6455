// Averaging of weights every `period` steps; see averaging.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_averaging(const RuleContext& context);

}  // namespace trireme::agree
