// The static half of the verifier: bounds and dependencies of each program, partners of messages, races.
#pragma once

#include <span>
#include <tuple>

#include "trireme/collective/schedule.h"

namespace trireme::collective {

using Programs = std::span<const RankProgram>;
using MessageKey = std::tuple<int, int, std::uint32_t>;  // from, to, part

template <typename... Args>
Status broken(fmt::format_string<Args...> text, Args&&... args) {
  return Status(Code::kInvalid, "[collective] " + fmt::format(text, std::forward<Args>(args)...));
}

// A region that a step reads or writes in the memory of its own rank. `alias`: buffer 1 is buffer 0.
struct Access {
  int buffer;
  std::int64_t begin, end;
  bool write;
};
std::vector<Access> accesses_of(const Step& step, bool alias);

// Peers, dependencies and regions of every step of `rank` make sense.
Status check_steps(Programs programs, const ScheduleSpec& spec, std::size_t rank);
// Every message has one sender and one receiver that agree on its size.
Status check_partners(Programs programs);
// No two unordered steps touch the same elements with one of them writing. `alias`: buffer 1 is buffer 0.
Status check_races(const RankProgram& program, bool alias);

}  // namespace trireme::collective
