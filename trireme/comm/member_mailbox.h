// MemberMailbox: letters among members, each of them one rank or several, of which the first writes and is
// written to. Peers of the mailbox are members: what is keyed by peer is keyed by member. A member is lost
// with the rank that writes for it: until then letters of it may be on their way. That the loss of another of
// its ranks ends that one too is the member's own affair.
//
// For jobs whose replicas are several ranks: whoever leases, pushes or gossips deals with replicas.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/mailbox.h"

namespace trireme::comm {

// Letters of ranks that speak for no member stay with the mailbox below: kinds that are handled here are
// written by members alone. `mail` outlives it. No rank is in two members, and none is without a rank.
std::unique_ptr<Mailbox> make_member_mailbox(Mailbox& mail, std::vector<std::vector<int>> members);

// Member m is rank m, and nobody else: the mailbox below does as well.
bool are_plain_ranks(const std::vector<std::vector<int>>& members);

}  // namespace trireme::comm
