// Selection by price, with its reason.
#include <algorithm>

#include "trireme/collective/schedule.h"

namespace trireme::collective {
namespace {

// What the time of a price is made of, and so why it is what it is.
std::string explain(const Candidate& c, const cost::LinkModel& link, const cost::MachineModel& machine) {
  Price latency, bytes;
  latency.rounds = c.price.rounds;
  bytes.serial_bytes = std::max(c.price.serial_bytes, c.price.bytes_per_rank);
  const TimeNs for_latency = price_time(latency, link, machine), for_bytes = price_time(bytes, link, machine);
  return fmt::format("{}: {} = {} for {} rounds + {} for {} in a row + {} for additions", c.algorithm->name,
                     format_duration(c.time), format_duration(for_latency), c.price.rounds,
                     format_duration(for_bytes), format_bytes(static_cast<std::uint64_t>(bytes.serial_bytes)),
                     format_duration(c.time - for_latency - for_bytes));
}

bool goes_first(const Candidate& a, const Candidate& b) {
  if (a.applicable.ok() != b.applicable.ok()) return a.applicable.ok();
  return a.applicable.ok() && a.time < b.time;
}

}  // namespace

Result<Choice> choose(const ScheduleSpec& spec, std::span<const Algorithm* const> candidates,
                      const cost::LinkModel& link, const cost::MachineModel& machine) {
  TR_RETURN_IF_ERROR(check_spec(spec));
  Choice choice;
  for (const Algorithm* a : candidates) {
    if (a->kind != spec.kind)
      return error(Code::kInvalid, "[collective] candidate {} is for {}: expected {}", a->name,
                   kind_name(a->kind), kind_name(spec.kind));
    Candidate c;
    c.algorithm = a;
    c.applicable = a->applicable(spec);
    if (c.applicable.ok()) {
      c.price = a->price(spec);
      c.time = price_time(c.price, link, machine);
    }
    choice.candidates.push_back(std::move(c));
  }
  if (choice.candidates.empty())
    return error(Code::kNotFound, "[collective] no algorithm for {}", kind_name(spec.kind));
  std::stable_sort(choice.candidates.begin(), choice.candidates.end(), goes_first);
  const Candidate& best = choice.candidates.front();
  if (!best.applicable.ok()) return best.applicable;
  choice.algorithm = best.algorithm;
  choice.reason = explain(best, link, machine);
  if (choice.candidates.size() == 1)
    choice.reason += "; there is no other";
  else if (const Candidate& next = choice.candidates[1]; next.applicable.ok())
    choice.reason += "; next is " + explain(next, link, machine);
  else
    choice.reason += "; no other applies";
  return choice;
}

Result<const Algorithm*> select_algorithm(const ScheduleSpec& spec, const cost::LinkModel& link,
                                          const cost::MachineModel& machine) {
  TR_ASSIGN_OR_RETURN(const Choice choice, choose(spec, algorithms_of(spec.kind), link, machine));
  return choice.algorithm;
}

}  // namespace trireme::collective
