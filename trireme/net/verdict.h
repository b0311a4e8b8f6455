// The one finding about a failure: who, where and why.
#pragma once

#include <string>

#include "trireme/base/status.h"
#include "trireme/net/rank_names.h"

namespace trireme::net {

struct Verdict {
  int culprit = 0;
  Code code = Code::kPeerLost;
  std::string operation;
  std::string reason;
};

// The error that rank `self` gets.
Status to_status(const Verdict& verdict, int self, const RankNames& names = {});
// What rank `self` is told of the loss of an expendable rank: kPeerLost, whatever happened to it.
Status to_notice(const Verdict& verdict, int self, const RankNames& names = {});

}  // namespace trireme::net
