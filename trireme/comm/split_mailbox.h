// SplitMailbox: one mailbox as several, by who writes. What a rank receives for several purposes that use the
// same kinds of letters (a parameter server for each part of the model) has a mailbox for each, and a letter
// comes to the one whose ranks its sender is of.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/mailbox.h"

namespace trireme::comm {

// Mailboxes 0, 1 ... of which `part_of[rank]` gets the letters of a rank; ranks that are not listed write to
// none of them. All of them send, ask and hear of losses as `mail` does, which outlives them. A kind is
// handled from when all of them handle it until the first of them stops: its letters wait until then.
std::vector<std::unique_ptr<Mailbox>> split_mailbox(Mailbox& mail, std::vector<int> part_of);

}  // namespace trireme::comm
