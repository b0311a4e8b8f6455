// What lstm_kept and its gradient share where they multiply tiles of bf16 (simd/tiles.h). Every step is cut
// over blocks of 32 units and groups of 32 samples: a thread multiplies what these need of the weights, for
// all gates, and goes on with their cells, so that threads meet once a step. Sums do not depend on how blocks
// and groups are shared out: the bits are the same at every width.
//   forward   per step            z = b + x W_ih^T + h W_hh^T;  c, h = cell(z)
//   backward  per step            dh = dz W_hh of the step after;  dz = cell'(gates, c, dh + dy);
//                                 dx = dz W_ih of the step after
//             per chunk of steps  dW_ih += dz^T x;  dW_hh += dz^T h
// States and sums are f32; what is kept, read and written is bf16, as are the operands of products.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/recurrent/workspace_arrays.h"
#include "trireme/kernel/cpu/simd/cell_loops.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/simd/tiles.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/tensor/half.h"

namespace trireme::kernel::lstm_tiles {

using tiles::kDepth, tiles::kElems, tiles::kPair, tiles::kSide, tiles::Low, tiles::MatrixBlock;

constexpr std::int64_t kGates = 4, kBlock = 32;  // units of a block: two right tiles, one of depth
constexpr std::int64_t kRows = 2 * kSide;        // samples of a product
constexpr int kMostSlices = 256;

struct LstmTileSizes {
  std::int64_t steps, batch, size, units;
  std::int64_t sample_tiles, groups;  // of 16 samples, and of two of those
  std::int64_t size_blocks, blocks;   // of 32 features, and of 32 units
  std::int64_t depth;                 // tiles of all gates

  LstmTileSizes(const Shape& x, const Shape& h0)
      : steps(x[0]),
        batch(x[1]),
        size(x[2]),
        units(h0[1]),
        sample_tiles(tiles::sides(batch)),
        groups((sample_tiles + 1) / 2),
        size_blocks(tiles::depths(size)),
        blocks(tiles::depths(units)),
        depth(kGates * blocks) {}

  // Threads of a step; the units multiply several times as fast as others do.
  int slices(int width) const {
    return num_slices(std::max(blocks, size_blocks) * groups, batch * kGates * units * (size + units) / 64,
                      std::min(width, kMostSlices));
  }
  std::int64_t units_in(std::int64_t block) const { return std::min(kBlock, units - block * kBlock); }
  std::int64_t size_in(std::int64_t block) const { return std::min(kBlock, size - block * kBlock); }
  std::int64_t samples_in(std::int64_t tile) const { return std::min(kSide, batch - tile * kSide); }
  std::int64_t state_floats() const { return blocks * sample_tiles * kSide * kBlock; }
};

inline Low* take_tiles(WorkspaceArrays& arrays, std::int64_t n) { return arrays.take<Low>(n * kElems); }

inline const Low* low_in(const op::KernelArgs& a, int i) {
  return reinterpret_cast<const Low*>(a.in(i).values<BFloat16>().data());
}
inline Low* low_out(const op::KernelArgs& a, int i) {
  return reinterpret_cast<Low*>(a.out(i).values<BFloat16>().data());
}

// The slices of every step, each to the thread that had it in the step before, if that comes in time: its
// weights are in that thread's cache. Slices write apart, so the bits are the same whoever takes them.
class AffinitySlices {
 public:
  AffinitySlices(op::Parallel& parallel, int slices) : parallel_(parallel), slices_(slices) {
    TR_CHECK(slices <= kMostSlices);
  }
  // Calls fn(slice) for each, and returns when all have ended.
  template <typename Fn>
  void run(const Fn& fn) {
    if (slices_ == 1) return fn(0);
    for (int i = 0; i < slices_; ++i) places_[static_cast<std::size_t>(i)].taken.store(false, kRelaxed);
    for_slices(parallel_, slices_, slices_, [&](std::int64_t, std::int64_t, int) { fn(take()); });
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  struct Place {
    std::atomic<bool> taken = false;
    std::atomic<const void*> thread = nullptr;
  };
  int take() {
    const void* const self = __builtin_thread_pointer();
    for (const bool own : {true, false})
      for (int i = 0; i < slices_; ++i) {
        Place& p = places_[static_cast<std::size_t>(i)];
        if ((own && p.thread.load(kRelaxed) != self) || p.taken.load(kRelaxed)) continue;
        if (p.taken.exchange(true, kRelaxed)) continue;
        p.thread.store(self, kRelaxed);
        return i;
      }
    TR_CHECK(false, "as many slices as calls");
  }

  op::Parallel& parallel_;
  int slices_;
  std::array<Place, kMostSlices> places_;
};

// f32 states of every sample, 32 units in one piece; those of no unit are 0.
inline void widen_states(const LstmTileSizes& s, const Low* from, float* to) {
  std::fill_n(to, s.state_floats(), 0.0F);
  for (std::int64_t block = 0; block < s.blocks; ++block)
    for (std::int64_t b = 0; b < s.batch; ++b)
      vector_loops().bf16_to_f32(from + b * s.units + block * kBlock,
                                 to + (block * s.sample_tiles * kSide + b) * kBlock, s.units_in(block));
}
inline void round_states(const LstmTileSizes& s, const float* from, Low* to) {
  for (std::int64_t block = 0; block < s.blocks; ++block)
    for (std::int64_t b = 0; b < s.batch; ++b)
      vector_loops().f32_to_bf16(from + (block * s.sample_tiles * kSide + b) * kBlock,
                                 to + b * s.units + block * kBlock, s.units_in(block));
}

// Shapes that are not empty; the processor has units.
inline bool can_multiply(const op::KernelQuery& q) {
  const LstmTileSizes s(q.inputs[0].shape, q.inputs[1].shape);
  return tiles::best() != nullptr && s.steps * s.batch * s.size * s.units > 0;
}

}  // namespace trireme::kernel::lstm_tiles
