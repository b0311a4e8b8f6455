// Faults from the command line: RANK:KIND@SITE:INDEX, e.g. 1:kill@collective:7.
#pragma once

#include <string>
#include <vector>

#include "trireme/runtime/real/real_runtime.h"
#include "trireme/runtime/virtual/world.h"

namespace trireme::cli {

struct FaultOption {
  int rank = 0;
  std::string kind;  // kill, pause, miscall, error
  std::string site;
  std::uint64_t index = 0;
};

Result<FaultOption> parse_fault(std::string_view text);
// kInvalid: one strikes a rank that the job does not have.
Status check_faults(const std::vector<FaultOption>& faults, int world);
Status check_faults(const std::vector<runtime::FaultSpec>& faults, int world);
// Those that strike `rank`.
std::vector<runtime::RealFault> real_faults(const std::vector<FaultOption>& faults, int rank);
std::vector<runtime::FaultSpec> virtual_faults(const std::vector<FaultOption>& faults);

}  // namespace trireme::cli
