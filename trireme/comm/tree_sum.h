// TreeSum: the fixed tree over what the ranks bring, as a short list of additions over pointers. For ranks
// that can read each other's memory; the order of addition, and so the bits, are those of the fixed-tree
// schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trireme/collective/schedule.h"
#include "trireme/comm/combine.h"

namespace trireme::comm {

class TreeSum {
 public:
  // One leaf per rank when there are no runs. nullopt: a rank brings several partials, or none.
  static std::optional<TreeSum> make(int world, std::span<const collective::LeafRun> runs,
                                     std::int32_t num_leaves);

  // out[i], and also[i] unless it is null, = the tree over in[rank][i]. `out` may be one of the inputs.
  void run(const Combine& combine, std::span<const std::byte* const> in, std::byte* out, std::byte* also,
           std::int64_t count, std::int64_t elem_bytes);

 private:
  static constexpr std::int64_t kPieceBytes = 8 << 10;  // temporaries stay in the nearest cache

  // Operands below `world` are inputs, the others temporaries. The last one makes the result.
  struct Addition {
    std::int32_t left, right, result;
  };
  std::int32_t world_ = 1;
  std::vector<Addition> additions_;
  std::vector<std::byte> temporaries_;
  std::vector<std::byte*> at_;  // where each operand is now
};

}  // namespace trireme::comm
