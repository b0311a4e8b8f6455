// Gossip; see gossip.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_gossip(const RuleContext& context);

}  // namespace trireme::agree
