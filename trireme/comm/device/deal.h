// Deal: one collective among GPUs as three things to do. Every rank packs what others need of its operand
// into memory of its own, its outbox, as a portion for each; the ranks trade portions; each makes its result
// of those that it got. Internal to comm.
//
// Where portions lie in anybody's outbox follows from the node alone, so ranks that see each other's memory
// need to say nothing. Portions are aligned to kPortionAlign bytes, sums of vectors need that.
#pragma once

#include <functional>
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/exec/host_op.h"
#include "trireme/kernel/cuda/cuda.h"

namespace trireme::comm {

inline constexpr std::size_t kPortionAlign = 256;
inline std::size_t portion_room(std::size_t bytes) {
  return (bytes + kPortionAlign - 1) / kPortionAlign * kPortionAlign;
}

// In an outbox.
struct Portion {
  std::size_t offset = 0, bytes = 0;
};

struct Deal {
  using Stream = kernel::cuda::KernelStream;
  std::vector<Portion> out;  // by the rank that gets it, in the own outbox; several ranks may get the same
  std::vector<Portion> in;   // by the rank that it is from, in that one's outbox; also of the rank itself
  std::function<Status(Stream&, std::byte* outbox)> pack;
  // The portions that came, by the rank that they are from; null where there is none.
  std::function<Status(Stream&, const std::vector<const std::byte*>& from)> finish;

  std::size_t outbox_bytes() const;
  std::size_t inbox_bytes(int rank) const;  // portions of others, one behind the other
};

// Kernels that the results of sums are made with: of one vector of every rank.
struct DealKernels {
  const kernel::cuda::VectorSum *sum = nullptr, *larger = nullptr;
};

// Whether such a node can be dealt with: its op is one of them, and it adds f32 if it adds.
bool can_deal(const graph::Node& node);

// The deals of a node, one after the other; operands without memory yield the sizes. An allreduce of many
// bytes has two: everybody sums a part, then all get the parts. `in_two`: any allreduce has two.
Result<std::vector<Deal>> deals_of(const Group& group, const exec::HostCall& host, const DealKernels& kernels,
                                   bool in_two);

}  // namespace trireme::comm
