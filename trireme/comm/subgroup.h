// Some ranks of a group as a group: its calls are run by the whole under another id and between these ranks.
#pragma once

#include "trireme/comm/calls.h"

namespace trireme::comm {

// `ranks` of a world in which this process is `rank`; `id` differs from `whole_id`.
Result<std::shared_ptr<const Members>> make_members(std::vector<int> ranks, std::uint16_t id, int rank,
                                                    int world, std::uint16_t whole_id);
// `whole` outlives it.
std::unique_ptr<Group> make_subgroup(Calls& whole, std::shared_ptr<const Members> members);

}  // namespace trireme::comm
