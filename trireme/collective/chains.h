// Chains of messages through the programs of all ranks: rounds are counted, and schedules drawn, by them.
#pragma once

#include <span>
#include <vector>

#include "trireme/collective/loads.h"

namespace trireme::collective {

// What precedes the end of every step, by rank and step. Steps whose partner never sends stay at the default.
std::vector<std::vector<ChainDepth>> chain_depths(std::span<const RankProgram> programs, const Loads& loads);

}  // namespace trireme::collective
