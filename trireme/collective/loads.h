// Loads: who sends how much to whom, added up per rank and per machine; the counts of a Price come from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trireme/collective/schedule.h"

namespace trireme::collective {

// What precedes the end of a step: messages on the longest chain, elements on the heaviest, arrivals on the
// chain that has most of them, and arrivals from other machines likewise.
struct ChainDepth {
  std::int64_t messages = 0, elems = 0, hops = 0, crossings = 0;
  void follow(const ChainDepth& d) {
    messages = std::max(messages, d.messages);
    elems = std::max(elems, d.elems);
    hops = std::max(hops, d.hops);
    crossings = std::max(crossings, d.crossings);
  }
  // A message of `count` elements is off its sender's link ...
  ChainDepth done(std::int64_t count) const { return {messages + 1, elems + count, hops, crossings}; }
  // ... and has arrived.
  ChainDepth sent(std::int64_t count, bool crosses) const {
    return {messages + 1, elems + count, hops + 1, crossings + (crosses ? 1 : 0)};
  }
};

class Loads {
 public:
  explicit Loads(const ScheduleSpec& spec) : Loads(spec.world, spec.group_of) {}
  // Without groups, or with only one, no message is between machines and none is counted as local.
  Loads(int world, std::span<const std::int32_t> group_of);

  void add(int from, int to, std::int64_t messages, std::int64_t elems);
  // Several machines are told.
  bool has_machines() const { return !machine_of_.empty(); }
  bool crosses(int from, int to) const {
    return has_machines() &&
           machine_of_[static_cast<std::size_t>(from)] != machine_of_[static_cast<std::size_t>(to)];
  }

  // Elements of the busiest sender or receiver.
  std::int64_t busiest() const { return std::max(most(sent_).elems, most(received_).elems); }
  // Fills messages_*, bytes_per_rank and between but its rounds; serial_bytes is at least `chain_elems`.
  void fill(Price& price, std::int32_t elem_bytes, std::int64_t chain_elems) const;

 private:
  struct Load {
    std::int64_t messages = 0, elems = 0;
    void add(std::int64_t m, std::int64_t e) { messages += m, elems += e; }
  };
  static Load most(const std::vector<Load>& loads);

  std::vector<Load> sent_, received_;  // per rank
  std::vector<std::size_t> machine_of_;
  std::vector<Load> out_, in_, local_;  // per machine
};

}  // namespace trireme::collective
