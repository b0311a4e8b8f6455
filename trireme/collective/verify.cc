// The verifier: static checks of each program, pairing of messages, races, then one symbolic run of all
// ranks.
//
// One run is enough: once no two unordered steps of a rank touch the same elements (with one of them
// writing), every order the dependencies allow computes the same values. Programs with partials are run
// twice, with buffer 1 apart from buffer 0 and with both in the same memory.
#include "trireme/collective/verify_machine.h"

namespace trireme::collective {

Status verify_programs(Programs programs, const ScheduleSpec& spec, bool fixed_order) {
  if (static_cast<int>(programs.size()) != spec.world)
    return broken("got {} programs, expected one per rank ({})", programs.size(), spec.world);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (programs[i].rank != static_cast<int>(i))
      return broken("program {} is that of rank {}", i, programs[i].rank);
  }
  for (std::size_t i = 0; i < programs.size(); ++i) TR_RETURN_IF_ERROR(check_steps(programs, spec, i));
  TR_RETURN_IF_ERROR(check_partners(programs));
  for (const bool alias : {false, true}) {
    if (alias && !fixed_order) break;
    for (const RankProgram& p : programs) TR_RETURN_IF_ERROR(check_races(p, alias));
    for (const bool rendezvous : {false, true})
      TR_RETURN_IF_ERROR(run_symbolically(programs, spec, {fixed_order, alias, rendezvous}));
  }
  return {};
}

Status verify_schedule(const Algorithm& algorithm, const ScheduleSpec& spec) {
  std::vector<RankProgram> programs;
  for (int r = 0; r < spec.world; ++r) {
    TR_ASSIGN_OR_RETURN(RankProgram p, build_program(algorithm, spec, r));
    programs.push_back(std::move(p));
  }
  return verify_programs(programs, spec, algorithm.fixed_order);
}

}  // namespace trireme::collective
