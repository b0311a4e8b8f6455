// StartLine: where the ranks of a side meet before every call, so that all start together and no side's own
// barrier is part of what is measured. A page of shared memory with one counter per rank, 64 bytes apart;
// the same for every side (bench/peers/ has it in C++ and Python).
//
// A rank that arrives adds one to its counter and looks at the others' until they are as far. It spins,
// unless there are more ranks than cores: then it sleeps between looks.
#pragma once

#include <atomic>
#include <cstdint>

#include "trireme/runtime/network.h"

namespace trireme::measure {

inline constexpr std::size_t kStartLineStride = 64;
constexpr std::size_t start_line_bytes(int world) {
  return (static_cast<std::size_t>(world) * kStartLineStride + 4095) / 4096 * 4096;
}

class StartLine {
 public:
  // The page outlives it.
  StartLine(runtime::SharedSegment& page, int rank, int world) : page_(page), rank_(rank), world_(world) {}

  // kDeadline names the first rank that did not come, kCancelled one that gave up.
  runtime::Task<Status> meet(runtime::Runtime& rt, bool crowded, TimeNs deadline);
  // This rank will not come any more: nobody waits for it.
  void give_up();

 private:
  std::atomic<std::uint64_t>& counter(int rank) const;
  int first_missing() const;  // -1: all are here

  runtime::SharedSegment& page_;
  const int rank_, world_;
  std::uint64_t round_ = 0;
};

}  // namespace trireme::measure
