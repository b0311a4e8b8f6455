// Stale synchronous parallel without a server; see ssp_peer.cc.
#pragma once

#include "trireme/agree/agree.h"

namespace trireme::agree {

std::unique_ptr<Agreement> make_ssp_peer(const RuleContext& context);

}  // namespace trireme::agree
