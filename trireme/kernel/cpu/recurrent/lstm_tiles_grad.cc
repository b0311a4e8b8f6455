// lstm_kept_grad of bf16 operands on the processor's units; gradients of weights and biases are f32. How:
// lstm_tiles.h.
#include "trireme/kernel/cpu/formed.h"
#include "trireme/kernel/cpu/recurrent/lstm_tiles.h"
#include "trireme/op/op.h"
#include "trireme/op/sequence/lstm_kept.h"

namespace trireme::kernel {
namespace {

using namespace lstm_tiles;

enum In : int { kX, kH0, kWih, kWhh, kY, kKept, kCells, kDy, kDh, kDc };

// Steps whose dz are there at once: enough depth for gradients of weights, in little memory.
std::int64_t steps_of_chunk(const LstmTileSizes& s) {
  constexpr std::int64_t kTiles = 64;
  return std::min(s.steps, std::max<std::int64_t>(2, kTiles / s.sample_tiles));
}

struct Memory {
  std::int64_t chunk, depth;  // steps, and tiles of depth in a gradient of weights
  Low *w_ih, *w_hh;           // pairs of right tiles: block of columns, gates
  Low* dz;                    // left tiles: step of the chunk, samples, gates
  Low *x, *h;                 // pairs of right tiles of a chunk: block, rows
  Low* turned;                // left tiles of dz^T: slice, half of a block, rows
  float *dc, *db;             // db: group, block, 32 of each gate
  Memory(const LstmTileSizes& s, int slices, WorkspaceArrays& arrays)
      : chunk(steps_of_chunk(s)),
        depth((chunk * s.sample_tiles + 1) / 2),
        w_ih(take_tiles(arrays, 2 * s.size_blocks * s.depth)),
        w_hh(take_tiles(arrays, 2 * s.blocks * s.depth)),
        dz(take_tiles(arrays, chunk * s.sample_tiles * s.depth)),
        x(take_tiles(arrays, 2 * s.size_blocks * depth)),
        h(take_tiles(arrays, 2 * s.blocks * depth)),
        turned(take_tiles(arrays, 2 * depth * slices)),
        dc(arrays.take<float>(s.state_floats())),
        db(arrays.take<float>(s.groups * s.depth * kBlock)) {}
};

// What a block of columns multiplies of W [gates, columns].
void pack_weight(const LstmTileSizes& s, const Low* w, std::int64_t columns, std::int64_t block, Low* to) {
  to += block * s.depth * kPair;
  for (std::int64_t gate = 0; gate < kGates; ++gate)
    for (std::int64_t k = 0; k < s.blocks; ++k, to += kPair) {
      const auto piece = [&](std::int64_t unit) {
        return MatrixBlock{w + (gate * s.units + unit) * columns + block * kBlock, columns,
                           std::min(kSide, s.units - unit), std::min(kBlock, columns - block * kBlock)};
      };
      tiles::load_pair(piece(k * kBlock), piece(k * kBlock + kSide), to);
    }
}

class Backward {
 public:
  Backward(op::KernelArgs& args, const LstmTileSizes& sizes, int slices)
      : args_(args),
        s(sizes),
        slices_(slices),
        arrays_(args.workspace.data()),
        at(sizes, slices, arrays_),
        units_(*tiles::best()) {}

  void run() {
    start();
    AffinitySlices steps(args_.parallel, slices_);
    for (std::int64_t t = s.steps - 1; t >= -1; --t) {
      steps.run([&](int slice) {
        const tiles::Scope scope(units_);
        const SliceRange own = slice_range(s.blocks * s.groups, slices_, slice),
                         columns = slice_range(s.size_blocks * s.groups, slices_, slice);
        for (std::int64_t i = own.begin; i < own.end; ++i) step(t, i / s.groups, i % s.groups);
        for (std::int64_t i = columns.begin; t + 1 < s.steps && i < columns.end; ++i)
          input_grad(t + 1, i / s.groups, i % s.groups);
      });
      if (t >= 0 && t % at.chunk == 0) weight_grads(t);
    }
    round_states(s, at.dc, low_out(args_, 2));
    for (std::int64_t group = 1; group < s.groups; ++group)
      vector_loops().add(at.db, at.db + group * s.depth * kBlock, at.db, s.depth * kBlock);
    for (std::int64_t i = 0; i < s.depth; ++i) {
      const std::int64_t block = i / kGates, to = i % kGates * s.units + block * kBlock;
      for (const int k : {5, 6}) std::copy_n(at.db + i * kBlock, s.units_in(block), f32_out(args_, k) + to);
    }
  }

 private:
  void start() {
    const std::int64_t blocks = std::max(s.blocks, s.size_blocks);
    for_slices(args_.parallel, blocks, static_cast<int>(std::min<std::int64_t>(slices_, blocks)),
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t block = begin; block < end; ++block) {
                   if (block < s.size_blocks) pack_weight(s, low_in(args_, kWih), s.size, block, at.w_ih);
                   if (block < s.blocks) pack_weight(s, low_in(args_, kWhh), s.units, block, at.w_hh);
                 }
               });
    if (s.batch % kSide != 0)
      std::fill_n(at.dz, at.chunk * s.sample_tiles * s.depth * kElems, Low{0});  // of no sample
    std::fill_n(at.db, s.groups * s.depth * kBlock, 0.0F);
    widen_states(s, low_in(args_, kDc), at.dc);
  }

  Low* dz(std::int64_t t, std::int64_t tile) const {
    return at.dz + (t % at.chunk * s.sample_tiles + tile) * s.depth * kElems;
  }

  // A group of samples of dz of step t times a block of columns of w.
  void multiply(std::int64_t t, std::int64_t group, const Low* w, std::int64_t block, float* to) const {
    const std::int64_t tile = 2 * group;
    units_.multiply(dz(t, tile), s.depth * kElems, tile + 1 < s.sample_tiles ? 2 : 1,
                    w + block * s.depth * kPair, s.depth, false, to, kBlock);
  }

  // dh before step t + 1, and from it dz of step t; before the first step it is a result.
  void step(std::int64_t t, std::int64_t block, std::int64_t group) const {
    alignas(64) float dh[kRows * kBlock];
    const std::int64_t n = s.units_in(block), unit = block * kBlock;
    const std::int64_t first = group * kRows, last = std::min(first + kRows, s.batch);
    const Low *kept = low_in(args_, kKept), *cells = low_in(args_, kCells), *dy = low_in(args_, kDy);
    if (t + 1 < s.steps) {
      multiply(t + 1, group, at.w_hh, block, dh);
    } else {
      std::fill_n(dh, kRows * kBlock, 0.0F);
      for (std::int64_t b = first; b < last; ++b)
        vector_loops().bf16_to_f32(low_in(args_, kDh) + b * s.units + unit, dh + (b - first) * kBlock, n);
    }
    for (std::int64_t b = first; b < last; ++b) {
      float* const grad = dh + (b - first) * kBlock;
      if (t < 0) {
        vector_loops().f32_to_bf16(grad, low_out(args_, 1) + b * s.units + unit, n);
        continue;
      }
      const std::int64_t row = t * s.batch + b;
      cell_loops().low_lstm.back(kept + row * kGates * s.units + unit, s.units, cells + row * s.units + unit,
                                 dy + row * s.units + unit, grad,
                                 at.dc + (block * s.sample_tiles * kSide + b) * kBlock,
                                 dz(t, b / kSide) + block * kElems + b % kSide * kDepth, s.blocks * kElems,
                                 at.db + (group * s.blocks + block) * kGates * kBlock, n);
    }
  }

  // Some columns of dx of step t.
  void input_grad(std::int64_t t, std::int64_t block, std::int64_t group) const {
    alignas(64) float dx[kRows * kBlock];
    multiply(t, group, at.w_ih, block, dx);
    const std::int64_t first = group * kRows, last = std::min(first + kRows, s.batch);
    for (std::int64_t b = first; b < last; ++b)
      vector_loops().f32_to_bf16(dx + (b - first) * kBlock,
                                 low_out(args_, 0) + (t * s.batch + b) * s.size + block * kBlock,
                                 s.size_in(block));
  }

  // Rows of a chunk that begins at step t0, sixteen samples of one step each.
  struct Chunk {
    std::int64_t t0, row_tiles, depth;
  };
  MatrixBlock rows_of(const Chunk& c, std::int64_t row_tile, const Low* of, std::int64_t columns,
                      std::int64_t block, std::int64_t earlier) const {
    if (row_tile >= c.row_tiles) return {nullptr, 0, 0, 0};
    const std::int64_t t = c.t0 + row_tile / s.sample_tiles - earlier, tile = row_tile % s.sample_tiles;
    const Low* const from = t < 0 ? low_in(args_, kH0) : of + t * s.batch * columns;
    return {from + tile * kSide * columns + block * kBlock, columns, s.samples_in(tile),
            std::min(kBlock, columns - block * kBlock)};
  }

  // dW += dz^T x and dz^T h of the chunk that begins at step t0.
  void weight_grads(std::int64_t t0) {
    Chunk c{t0, std::min(at.chunk, s.steps - t0) * s.sample_tiles, 0};
    c.depth = (c.row_tiles + 1) / 2;
    const bool adds = t0 + at.chunk < s.steps;
    for_slices(args_.parallel, c.depth, std::min<int>(slices_, static_cast<int>(c.depth)),
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t k = begin; k < end; ++k) {
                   pack_chunk(c, k, low_in(args_, kX), s.size, s.size_blocks, 0, at.x);
                   pack_chunk(c, k, low_in(args_, kY), s.units, s.blocks, 1, at.h);
                 }
               });
    for_each_dynamic(args_.parallel, s.depth, slices_, [&](std::int64_t i, int slice) {
      const tiles::Scope scope(units_);
      Low* const turned = at.turned + slice * 2 * at.depth * kElems;
      const auto piece = [&](std::int64_t row_tile) {
        if (row_tile >= c.row_tiles) return MatrixBlock{nullptr, 0, 0, 0};
        const Low* const tile = dz(t0 + row_tile / s.sample_tiles, row_tile % s.sample_tiles);
        return MatrixBlock{tile + i * kElems, kDepth, kSide, kDepth};
      };
      for (std::int64_t k = 0; k < c.depth; ++k)
        tiles::load_columns(piece(2 * k), piece(2 * k + 1), turned + k * kElems, c.depth * kElems);
      multiply_turned(c, turned, i, at.x, s.size, adds, f32_out(args_, 3));
      multiply_turned(c, turned, i, at.h, s.units, adds, f32_out(args_, 4));
    });
  }

  void pack_chunk(const Chunk& c, std::int64_t k, const Low* of, std::int64_t columns, std::int64_t blocks,
                  std::int64_t earlier, Low* to) const {
    for (std::int64_t block = 0; block < blocks; ++block)
      tiles::load_pair(rows_of(c, 2 * k, of, columns, block, earlier),
                       rows_of(c, 2 * k + 1, of, columns, block, earlier),
                       to + (block * c.depth + k) * kPair);
  }

  // Rows of dW that belong to 32 units of one gate: run i of the gates.
  void multiply_turned(const Chunk& c, const Low* turned, std::int64_t i, const Low* right,
                       std::int64_t columns, bool adds, float* dw) const {
    const std::int64_t unit = i % s.blocks * kBlock, rows = std::min(kBlock, s.units - unit);
    float* const first = dw + (i / s.blocks * s.units + unit) * columns;
    const std::int64_t run = c.depth * kElems;
    for (std::int64_t block = 0; block < tiles::depths(columns); ++block) {
      const std::int64_t n = std::min(kBlock, columns - block * kBlock);
      float* const to = first + block * kBlock;
      const Low* const b = right + 2 * block * run;
      if (rows == kBlock && n == kBlock) {
        units_.multiply(turned, run, 2, b, c.depth, adds, to, columns);
        continue;
      }
      alignas(64) float part[kRows * kBlock];
      units_.multiply(turned, run, 2, b, c.depth, false, part, kBlock);
      for (std::int64_t r = 0; r < rows; ++r) {
        if (adds)
          vector_loops().add(to + r * columns, part + r * kBlock, to + r * columns, n);
        else
          std::copy_n(part + r * kBlock, n, to + r * columns);
      }
    }
  }

  op::KernelArgs& args_;
  const LstmTileSizes& s;
  int slices_;
  WorkspaceArrays arrays_;
  Memory at;
  const tiles::Units& units_;
};

void run(op::KernelArgs& args) {
  const LstmTileSizes s(args.in(kX).shape(), args.in(kH0).shape());
  Backward(args, s, s.slices(args.parallel.width())).run();
}

std::size_t workspace_bytes(const op::KernelQuery& q) {
  const LstmTileSizes s(q.inputs[kX].shape, q.inputs[kH0].shape);
  WorkspaceArrays arrays;
  Memory(s, s.slices(q.width), arrays);
  return arrays.bytes();
}

// Everything in bf16 but gradients of weights and biases, which the op would give in f32.
bool takes_low(const op::KernelQuery& q) {
  if (!can_multiply(q)) return false;
  for (std::size_t i = 0; i < q.inputs.size(); ++i)
    if (q.inputs[i].dtype != DType::kBF16 || q.forms.inputs[i].dtype != DType::kF32) return false;
  for (std::size_t i = 0; i < q.outputs.size(); ++i)
    if (q.outputs[i].dtype != (i < 3 ? DType::kBF16 : DType::kF32)) return false;
  return true;
}

}  // namespace

extern const op::KernelRow kLstmKeptGradTiles{.op = "lstm_kept_grad",
                                              .name = "tiles",
                                              .run = run,
                                              .applicable = takes_low,
                                              .workspace_bytes = workspace_bytes,
                                              .takes = takes_formed};

}  // namespace trireme::kernel
