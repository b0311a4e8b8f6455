// lstm_kept in bf16 on the processor's units. How: lstm_tiles.h.
#include "trireme/kernel/cpu/recurrent/lstm_tiles.h"

#include <cstring>

#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using namespace lstm_tiles;

struct Memory {
  Low *w_ih, *w_hh;  // pairs of right tiles: block, gate, depth
  Low* x;            // left tiles: step, samples, depth
  Low* h[2];         // of the step at hand and of the next one
  float *c, *bias;   // bias: 32 of each gate, block by block
  Memory(const LstmTileSizes& s, WorkspaceArrays& arrays)
      : w_ih(take_tiles(arrays, 2 * s.depth * s.size_blocks)),
        w_hh(take_tiles(arrays, 2 * s.depth * s.blocks)),
        x(take_tiles(arrays, s.steps * s.sample_tiles * s.size_blocks)),
        h{take_tiles(arrays, s.sample_tiles * s.blocks), take_tiles(arrays, s.sample_tiles * s.blocks)},
        c(arrays.take<float>(s.state_floats())),
        bias(arrays.take<float>(s.depth * kBlock)) {}
};

std::size_t workspace_bytes(const op::KernelQuery& q) {
  WorkspaceArrays arrays;
  Memory(LstmTileSizes(q.inputs[0].shape, q.inputs[1].shape), arrays);
  return arrays.bytes();
}

// What a block multiplies of W [gates, columns].
void pack_weight(const LstmTileSizes& s, const Low* w, std::int64_t columns, std::int64_t block, Low* to) {
  const std::int64_t depth = tiles::depths(columns);
  to += block * kGates * depth * kPair;
  for (std::int64_t gate = 0; gate < kGates; ++gate)
    for (std::int64_t i = 0; i < 2 * depth; ++i, to += kElems) {
      const std::int64_t k = i / 2, unit = block * kBlock + i % 2 * kSide, row = gate * s.units + unit;
      tiles::load_turned({w + row * columns + k * kDepth, columns, std::min(kSide, s.units - unit),
                          std::min(kDepth, columns - k * kDepth)},
                         to);
    }
}

// Left tiles of [rows, columns], 16 rows of them.
void pack_rows(const Low* from, std::int64_t rows, std::int64_t columns, Low* to) {
  for (std::int64_t k = 0; k < tiles::depths(columns); ++k, to += kElems)
    tiles::load({from + k * kDepth, columns, rows, std::min(kDepth, columns - k * kDepth)}, to);
}

struct Forward {
  const LstmTileSizes& s;
  const Memory& at;
  Low *y, *gates, *cells;

  // The step of some units of some samples.
  void step(const tiles::Units& units, std::int64_t t, std::int64_t block, std::int64_t group) const {
    alignas(64) float z[kRows * kGates * kBlock];
    constexpr std::int64_t kRow = kGates * kBlock;
    const Low* const h = at.h[t % 2];
    Low* const next = at.h[(t + 1) % 2];
    const std::int64_t n = s.units_in(block), tile = 2 * group;
    const int m = tile + 1 < s.sample_tiles ? 2 : 1;
    for (std::int64_t gate = 0; gate < kGates; ++gate) {
      const std::int64_t run = block * kGates + gate;
      const auto multiply = [&](const Low* a, const Low* w, std::int64_t depth, bool adds) {
        units.multiply(a, depth * kElems, m, w + run * depth * kPair, depth, adds, z + gate * kBlock, kRow);
      };
      multiply(at.x + (t * s.sample_tiles + tile) * s.size_blocks * kElems, at.w_ih, s.size_blocks, false);
      multiply(h + tile * s.blocks * kElems, at.w_hh, s.blocks, true);
    }
    const std::int64_t first = group * kRows, last = std::min(first + kRows, s.batch);
    for (std::int64_t b = first; b < last; ++b) {
      const std::int64_t row = t * s.batch + b, unit = block * kBlock;
      Low* const made = y + row * s.units + unit;
      cell_loops().low_lstm.step(z + (b - first) * kRow, at.bias + block * kRow,
                                 at.c + (block * s.sample_tiles * kSide + b) * kBlock,
                                 gates + row * kGates * s.units + unit, s.units, cells + row * s.units + unit,
                                 made, n);
      std::copy_n(made, n, next + (b / kSide * s.blocks + block) * kElems + b % kSide * kDepth);
    }
  }
};

// Weights, x, the first states.
void prepare_operands(const op::KernelArgs& args, const LstmTileSizes& s, const Memory& at) {
  const Low *x = low_in(args, 0), *h0 = low_in(args, 1);
  const Low *b_ih = low_in(args, 5), *b_hh = low_in(args, 6);
  const VectorLoops& loops = vector_loops();
  for_slices(args.parallel, s.blocks,
             static_cast<int>(std::min<std::int64_t>(s.slices(args.parallel.width()), s.blocks)),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t block = begin; block < end; ++block) {
                 pack_weight(s, low_in(args, 3), s.size, block, at.w_ih);
                 pack_weight(s, low_in(args, 4), s.units, block, at.w_hh);
               }
             });
  const std::int64_t row_tiles = s.steps * s.sample_tiles;
  for_slices(args.parallel, row_tiles,
             num_slices(row_tiles, s.steps * s.batch * s.size, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t i = begin; i < end; ++i) {
                 const std::int64_t t = i / s.sample_tiles, tile = i % s.sample_tiles;
                 pack_rows(x + (t * s.batch + tile * kSide) * s.size, s.samples_in(tile), s.size,
                           at.x + i * s.size_blocks * kElems);
               }
             });
  for (std::int64_t tile = 0; tile < s.sample_tiles; ++tile)
    pack_rows(h0 + tile * kSide * s.units, s.samples_in(tile), s.units, at.h[0] + tile * s.blocks * kElems);
  std::fill_n(at.h[1], s.sample_tiles * s.blocks * kElems, Low{0});
  widen_states(s, low_in(args, 2), at.c);
  std::fill_n(at.bias, s.depth * kBlock, 0.0F);
  for (std::int64_t i = 0; i < s.depth; ++i) {
    const std::int64_t block = i / kGates, from = i % kGates * s.units + block * kBlock,
                       n = s.units_in(block);
    float* const to = at.bias + i * kBlock;
    float other[kBlock];
    loops.bf16_to_f32(b_ih + from, to, n);
    loops.bf16_to_f32(b_hh + from, other, n);
    loops.add(to, other, to, n);
  }
}

void run(op::KernelArgs& args) {
  const LstmTileSizes s(args.in(0).shape(), args.in(1).shape());
  WorkspaceArrays arrays(args.workspace.data());
  const Memory at(s, arrays);
  const tiles::Units& units = *tiles::best();
  prepare_operands(args, s, at);
  Low* const y = low_out(args, 0);
  const Forward forward{s, at, y, low_out(args, 3), low_out(args, 4)};
  const int slices = s.slices(args.parallel.width());
  AffinitySlices steps(args.parallel, slices);
  for (std::int64_t t = 0; t < s.steps; ++t)
    steps.run([&](int slice) {
      const tiles::Scope scope(units);
      const SliceRange own = slice_range(s.blocks * s.groups, slices, slice);
      for (std::int64_t i = own.begin; i < own.end; ++i) forward.step(units, t, i / s.groups, i % s.groups);
    });
  std::copy_n(y + (s.steps - 1) * s.batch * s.units, s.batch * s.units, low_out(args, 1));
  round_states(s, at.c, low_out(args, 2));
}

bool applicable(const op::KernelQuery& q) { return all_of_dtype(q, DType::kBF16) && can_multiply(q); }

}  // namespace

extern const op::KernelRow kLstmKeptTiles{.op = "lstm_kept",
                                          .name = "tiles",
                                          .run = run,
                                          .applicable = applicable,
                                          .workspace_bytes = workspace_bytes};

}  // namespace trireme::kernel
