// Asynchronous peers without a server; see decentralized.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_decentralized(const RuleContext& context);

}  // namespace trireme::agree
