#include "trireme/runtime/real/timers.h"

#include <utility>

namespace trireme::runtime::real {

bool Timers::before(std::uint32_t a, std::uint32_t b) const {
  return std::pair(slots_[a].when, slots_[a].sequence) < std::pair(slots_[b].when, slots_[b].sequence);
}

void Timers::place(std::uint32_t slot, std::size_t position) {
  heap_[position] = slot;
  slots_[slot].position = static_cast<std::uint32_t>(position);
}

void Timers::sift_up(std::size_t position) {
  const std::uint32_t slot = heap_[position];
  while (position > 0 && before(slot, heap_[(position - 1) / 2])) {
    place(heap_[(position - 1) / 2], position);
    position = (position - 1) / 2;
  }
  place(slot, position);
}

void Timers::sift_down(std::size_t position) {
  const std::uint32_t slot = heap_[position];
  for (;;) {
    std::size_t child = 2 * position + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], slot)) break;
    place(heap_[child], position);
    position = child;
  }
  place(slot, position);
}

TimerId Timers::add(TimeNs when, Callback fn) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.fn = std::move(fn);
  slot.when = when;
  slot.sequence = next_sequence_++;
  heap_.push_back(index);
  sift_up(heap_.size() - 1);
  // The generation starts at 1 in every id, so that no id is 0.
  return (static_cast<TimerId>(slot.generation + 1) << 32) | index;
}

void Timers::remove(std::uint32_t index) {
  const std::size_t position = slots_[index].position;
  const std::uint32_t last = heap_.back();
  heap_.pop_back();
  if (last != index) {
    place(last, position);
    sift_up(position);
    sift_down(slots_[last].position);
  }
  ++slots_[index].generation;
  free_.push_back(index);
}

void Timers::cancel(TimerId id) {
  const auto index = static_cast<std::uint32_t>(id);
  if (index >= slots_.size() || slots_[index].generation + 1 != static_cast<std::uint32_t>(id >> 32)) return;
  // Out of the heap before the callback dies: its destructor may cancel or add timers.
  const Callback dying = std::move(slots_[index].fn);
  remove(index);
}

void Timers::take_all(std::vector<Callback>& into) {
  while (!heap_.empty()) {
    into.push_back(std::move(slots_[heap_[0]].fn));
    remove(heap_[0]);
  }
}

bool Timers::run_due(TimeNs now) {
  const std::uint64_t end = next_sequence_;
  bool ran = false;
  while (!heap_.empty()) {
    const std::uint32_t index = heap_[0];
    if (slots_[index].when > now || slots_[index].sequence >= end) break;
    Callback fn = std::move(slots_[index].fn);
    remove(index);
    fn();
    ran = true;
  }
  return ran;
}

}  // namespace trireme::runtime::real
