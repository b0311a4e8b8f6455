// Which strand has certainly ended before another starts. Internal to the memory planner.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/graph/pass/passes.h"
#include "trireme/graph/storage.h"

namespace trireme::graph {

// "Node a has ended before node b starts", for nodes that run.
class HappensBefore {
 public:
  // Fails when the strands wait for each other in a circle.
  static Result<HappensBefore> make(const Graph& graph, const MemoryRequest& request,
                                    const ValueMap<Value>& roots);

  std::int32_t strand(std::int32_t node) const {
    return strand_.empty() ? 0 : strand_[static_cast<std::size_t>(node)];
  }
  bool strands(std::int32_t a, std::int32_t b) const {
    return (reach_[static_cast<std::size_t>(b) * words_ + static_cast<std::size_t>(a) / 64] >> (a % 64)) & 1U;
  }
  bool operator()(std::int32_t a, std::int32_t b) const {
    if (phase(a) != phase(b)) return phase(a) < phase(b);
    const std::int32_t sa = strand(a), sb = strand(b);
    return sa == sb ? a < b : strands(sa, sb);
  }

  std::int32_t phase(std::int32_t node) const {
    return phase_.empty() ? 0 : phase_[static_cast<std::size_t>(node)];
  }

 private:
  std::vector<std::int32_t> strand_, phase_;
  std::size_t words_ = 0;
  std::vector<std::uint64_t> reach_;  // row b: the strands before b, as bits
};

}  // namespace trireme::graph
