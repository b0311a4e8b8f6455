// Selection by price, with its reason.
#include <algorithm>

#include "trireme/collective/schedule.h"

namespace trireme::collective {
namespace {

// What the time of a price is made of, and so why it is what it is.
std::string explain(const Candidate& c, const cost::CommModel& model) {
  const PriceTime t = price_parts(c.price, model);
  const bool reads = c.price.peer_copy_bytes > 0;
  const auto bytes = static_cast<std::uint64_t>(reads ? c.price.peer_copy_bytes : c.price.serial_bytes);
  return fmt::format("{}: {} = {} for {} rounds + {} for {} messages + {} for {} {} + {} for additions",
                     c.algorithm->name, format_duration(c.time), format_duration(t.latency), c.price.rounds,
                     format_duration(t.messages), c.price.messages_sent, format_duration(t.bytes),
                     format_bytes(bytes), reads ? "copied from memory" : "in a row",
                     format_duration(t.additions));
}

bool goes_first(const Candidate& a, const Candidate& b) {
  if (a.applicable.ok() != b.applicable.ok()) return a.applicable.ok();
  return a.applicable.ok() && a.time < b.time;
}

}  // namespace

Result<Choice> choose(const ScheduleSpec& spec, std::span<const Algorithm* const> candidates,
                      const cost::CommModel& model) {
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
      c.time = price_time(c.price, model);
    }
    choice.candidates.push_back(std::move(c));
  }
  if (choice.candidates.empty())
    return error(Code::kNotFound, "[collective] no algorithm for {}", kind_name(spec.kind));
  std::stable_sort(choice.candidates.begin(), choice.candidates.end(), goes_first);
  const Candidate& best = choice.candidates.front();
  if (!best.applicable.ok()) return best.applicable;
  choice.algorithm = best.algorithm;
  choice.reason = explain(best, model);
  if (choice.candidates.size() == 1)
    choice.reason += "; there is no other";
  else if (const Candidate& next = choice.candidates[1]; next.applicable.ok())
    choice.reason += "; next is " + explain(next, model);
  else
    choice.reason += "; no other applies";
  return choice;
}

Result<Choice> choose(const ScheduleSpec& spec, std::span<const Algorithm* const> candidates,
                      const cost::LinkModel& link, const cost::MachineModel& machine) {
  return choose(spec, candidates, cost::CommModel(link, machine));
}

Result<const Algorithm*> select_algorithm(const ScheduleSpec& spec, const cost::CommModel& model) {
  TR_ASSIGN_OR_RETURN(const Choice choice, choose(spec, algorithms_of(spec.kind), model));
  return choice.algorithm;
}
Result<const Algorithm*> select_algorithm(const ScheduleSpec& spec, const cost::LinkModel& link,
                                          const cost::MachineModel& machine) {
  return select_algorithm(spec, cost::CommModel(link, machine));
}

}  // namespace trireme::collective
