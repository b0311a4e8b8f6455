// Hogwild and its locked variant; see hogwild.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_hogwild(const RuleContext& context);

}  // namespace trireme::agree
