// Faults from the command line: RANK:KIND@SITE:INDEX, e.g. 1:kill@collective:7.
#pragma once

#include <string>
#include <vector>

#include "trireme/runtime/virtual/world.h"
#include "trireme/start/trouble.h"

namespace trireme::cli {

struct FaultOption {
  int rank = 0;
  std::string kind;  // kill, pause, miscall, error
  std::string site;
  std::uint64_t index = 0;
};

Result<FaultOption> parse_fault(std::string_view text);
// kInvalid: one strikes a rank that there is not.
Status check_faults(const std::vector<runtime::FaultSpec>& faults, int world);
start::RankFault real_fault(const FaultOption& fault);
runtime::FaultSpec virtual_fault(const FaultOption& fault);

}  // namespace trireme::cli
