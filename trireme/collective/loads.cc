#include "trireme/collective/loads.h"

#include <map>

namespace trireme::collective {

Loads::Loads(int world, std::span<const std::int32_t> group_of)
    : sent_(static_cast<std::size_t>(world)), received_(sent_) {
  std::map<std::int32_t, std::size_t> numbers;
  for (const std::int32_t g : group_of)
    machine_of_.push_back(numbers.emplace(g, numbers.size()).first->second);
  if (numbers.size() < 2) machine_of_.clear();
  if (has_machines()) out_.resize(numbers.size()), in_.resize(numbers.size()), local_.resize(numbers.size());
}

void Loads::add(int from, int to, std::int64_t messages, std::int64_t elems) {
  const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
  sent_[f].add(messages, elems);
  received_[t].add(messages, elems);
  if (!has_machines()) return;
  if (!crosses(from, to)) return local_[machine_of_[f]].add(messages, elems);
  out_[machine_of_[f]].add(messages, elems);
  in_[machine_of_[t]].add(messages, elems);
}

Loads::Load Loads::most(const std::vector<Load>& loads) {
  Load result;
  for (const Load& l : loads) {
    result.messages = std::max(result.messages, l.messages);
    result.elems = std::max(result.elems, l.elems);
  }
  return result;
}

void Loads::fill(Price& price, std::int32_t elem_bytes, std::int64_t chain_elems) const {
  const auto bytes = [&](std::int64_t elems) { return static_cast<double>(elems * elem_bytes); };
  const Load sent = most(sent_), received = most(received_), out = most(out_), in = most(in_);
  price.messages_sent = sent.messages;
  price.messages_received = received.messages;
  price.bytes_per_rank = bytes(sent.elems);
  price.serial_bytes = bytes(std::max({sent.elems, received.elems, chain_elems}));
  if (!has_machines()) return;
  price.between.messages = std::max(out.messages, in.messages);
  price.between.bytes = bytes(std::max(out.elems, in.elems));
  price.between.local_messages = most(local_).messages;
  price.between.local_bytes = bytes(most(local_).elems);
}

}  // namespace trireme::collective
