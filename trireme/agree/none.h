// No communication: the control; see none.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_none(const RuleContext& context);

}  // namespace trireme::agree
