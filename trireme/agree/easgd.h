// Elastic averaging, synchronous; see easgd.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_easgd(const RuleContext& context);

}  // namespace trireme::agree
