// Ops that move elements without looking at them: whole runs, or tiles where a transposition leaves no run.
// Any dtype; the bits are those of the reference.
#include <algorithm>
#include <array>
#include <cstring>

#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/detail/infer.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

std::size_t bytes_of(std::int64_t n) { return static_cast<std::size_t>(n); }

// ---- Along one dimension

// A tensor as rows of everything from the axis on.
struct Rows {
  std::int64_t count, bytes;
};
Rows rows_from(const Tensor& t, int axis) {
  std::int64_t count = 1;
  for (int d = 0; d < axis; ++d) count *= t.shape()[d];
  const auto total = static_cast<std::int64_t>(t.type().num_bytes());
  return {count, count == 0 ? 0 : total / count};
}

// Between the rows of `whole` and those of its pieces, which lie side by side in it.
void copy_pieces(op::KernelArgs& args, const Tensor& whole, std::span<const Tensor> pieces, bool to_pieces) {
  const int axis = *op::detail::resolve_axis("axis", args.attrs.get_int("axis"), whole.type());
  const Rows all = rows_from(whole, axis);
  TR_CHECK(whole.is_contiguous());
  for (const Tensor& t : pieces) TR_CHECK(t.is_contiguous());
  const int slices = num_slices(all.count, whole.shape().num_elems(), args.parallel.width());
  for_slices(args.parallel, all.count, slices, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t column = 0;
    for (const Tensor& t : pieces) {
      const std::int64_t width = rows_from(t, axis).bytes;
      std::byte *in_whole = whole.raw() + column, *in_piece = t.raw();
      for (std::int64_t r = begin; width > 0 && r < end; ++r) {
        std::byte *a = in_whole + r * all.bytes, *b = in_piece + r * width;
        std::memcpy(to_pieces ? b : a, to_pieces ? a : b, bytes_of(width));
      }
      column += width;
    }
  });
}

void run_split(op::KernelArgs& args) { copy_pieces(args, args.in(0), args.outputs, true); }
void run_concat(op::KernelArgs& args) { copy_pieces(args, args.out(0), args.inputs, false); }

// ---- Dimensions in another order

// The dimensions of the result, merged where they lie together in x; `steps` in elements of x.
struct Order {
  int rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{}, steps{};
};
// step_of(d): the step in x along dimension d of the result.
template <typename StepOf>
Order merged(const Shape& y, const StepOf& step_of) {
  Order o;
  for (int d = 0; d < y.rank(); ++d) {
    if (y[d] == 1) continue;
    const std::int64_t step = step_of(d);
    const auto before = static_cast<std::size_t>(o.rank - 1);
    if (o.rank > 0 && o.steps[before] == step * y[d]) {
      o.sizes[before] *= y[d];
      o.steps[before] = step;
      continue;
    }
    o.sizes[static_cast<std::size_t>(o.rank)] = y[d];
    o.steps[static_cast<std::size_t>(o.rank++)] = step;
  }
  if (o.rank == 0) o = {1, {1}, {1}};
  return o;
}
Order merged_order(const op::KernelArgs& args) {
  const Shape &x = args.in(0).shape(), &y = args.out(0).shape();
  const auto& given = args.attrs.get_ints("order");
  const auto x_steps = row_major_strides(x);
  return merged(y, [&](int d) {
    return x_steps[static_cast<std::size_t>(given.empty() ? y.rank() - 1 - d
                                                          : given[static_cast<std::size_t>(d)])];
  });
}
// Along what is repeated the step is 0.
Order broadcast_order(const op::KernelArgs& args) {
  const Shape &x = args.in(0).shape(), &y = args.out(0).shape();
  const auto x_steps = row_major_strides(x);
  return merged(y, [&](int d) {
    const int own = d - (y.rank() - x.rank());
    return own < 0 || x[own] == 1 ? std::int64_t{0} : x_steps[static_cast<std::size_t>(own)];
  });
}

// Where index `i` of the first `rank` dimensions is in x.
std::int64_t offset_of(const Order& o, int rank, std::int64_t i) {
  std::int64_t at = 0;
  for (auto d = static_cast<std::size_t>(rank); d-- > 0; i /= o.sizes[d]) at += i % o.sizes[d] * o.steps[d];
  return at;
}

// The last dimension of the result is a run of x.
void copy_runs(op::KernelArgs& args, const Order& o, std::int64_t elem_bytes) {
  const std::int64_t run = o.sizes[static_cast<std::size_t>(o.rank - 1)];
  const std::int64_t elems = args.out(0).shape().num_elems(), runs = elems / run;
  const std::byte* x = args.in(0).raw();
  std::byte* y = args.out(0).raw();
  for_slices(args.parallel, runs, num_slices(runs, elems, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t r = begin; r < end; ++r)
                 std::memcpy(y + r * run * elem_bytes, x + offset_of(o, o.rank - 1, r) * elem_bytes,
                             bytes_of(run * elem_bytes));
             });
}

// The last dimension of the result is one element of x, again and again.
template <typename Word>
void repeat_elems(op::KernelArgs& args, const Order& o) {
  const std::int64_t run = o.sizes[static_cast<std::size_t>(o.rank - 1)];
  const std::int64_t elems = args.out(0).shape().num_elems(), runs = elems / run;
  const auto* x = reinterpret_cast<const Word*>(args.in(0).raw());
  auto* y = reinterpret_cast<Word*>(args.out(0).raw());
  for_slices(args.parallel, elems, num_slices(elems, elems, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t r = begin / run; r < runs && r * run < end; ++r)
                 std::fill(y + std::max(begin, r * run), y + std::min(end, (r + 1) * run),
                           x[offset_of(o, o.rank - 1, r)]);
             });
}

// y[i][j] = x[j][i] for a tile.
template <typename Word>
void copy_tile(const Word* x, std::int64_t x_step, Word* y, std::int64_t y_step, std::int64_t rows,
               std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) y[i * y_step + j] = x[j * x_step + i];
}

// Dimension `dense` of the result is the one along which x is dense; it and the last are cut into tiles.
template <typename Word>
void copy_tiles(op::KernelArgs& args, const Order& o, std::size_t dense) {
  constexpr std::int64_t kTile = 16;
  const auto last = static_cast<std::size_t>(o.rank - 1);
  std::int64_t y_step = 1;
  for (std::size_t d = dense + 1; d <= last; ++d) y_step *= o.sizes[d];
  // What is neither dense nor last, in the order of the result.
  Order outer, outer_in_y;
  std::int64_t step = 1;
  std::array<std::int64_t, kMaxRank> y_steps{};
  for (std::size_t d = last + 1; d-- > 0; step *= o.sizes[d]) y_steps[d] = step;
  for (std::size_t d = 0; d < last; ++d) {
    if (d == dense) continue;
    outer.sizes[static_cast<std::size_t>(outer.rank)] = o.sizes[d];
    outer.steps[static_cast<std::size_t>(outer.rank)] = o.steps[d];
    outer_in_y.steps[static_cast<std::size_t>(outer.rank)] = y_steps[d];
    ++outer.rank;
  }
  outer_in_y.sizes = outer.sizes;
  const std::int64_t bands = (o.sizes[dense] + kTile - 1) / kTile;
  std::int64_t items = bands;
  for (int d = 0; d < outer.rank; ++d) items *= outer.sizes[static_cast<std::size_t>(d)];
  const auto* x = reinterpret_cast<const Word*>(args.in(0).raw());
  auto* y = reinterpret_cast<Word*>(args.out(0).raw());
  const std::int64_t elems = args.out(0).shape().num_elems();
  for_slices(args.parallel, items, num_slices(items, elems, args.parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               for (std::int64_t item = begin; item < end; ++item) {
                 const std::int64_t i = item % bands * kTile, rest = item / bands;
                 const Word* from = x + offset_of(outer, outer.rank, rest) + i;
                 Word* to = y + offset_of(outer_in_y, outer.rank, rest) + i * y_step;
                 const std::int64_t rows = std::min(kTile, o.sizes[dense] - i);
                 for (std::int64_t j = 0; j < o.sizes[last]; j += kTile)
                   copy_tile(from + j * o.steps[last], o.steps[last], to + j, y_step, rows,
                             std::min(kTile, o.sizes[last] - j));
               }
             });
}

void run_transpose(op::KernelArgs& args) {
  TR_CHECK(args.in(0).is_contiguous() && args.out(0).is_contiguous());
  if (args.out(0).shape().num_elems() == 0) return;
  const Order o = merged_order(args);
  const std::size_t elem_bytes = dtype_size(args.in(0).dtype());
  std::size_t dense = 0;
  while (o.steps[dense] != 1) ++dense;
  if (dense == static_cast<std::size_t>(o.rank - 1))
    return copy_runs(args, o, static_cast<std::int64_t>(elem_bytes));
  if (elem_bytes == 1) return copy_tiles<std::uint8_t>(args, o, dense);
  if (elem_bytes == 2) return copy_tiles<std::uint16_t>(args, o, dense);
  if (elem_bytes == 4) return copy_tiles<std::uint32_t>(args, o, dense);
  copy_tiles<std::uint64_t>(args, o, dense);
}

void run_broadcast(op::KernelArgs& args) {
  TR_CHECK(args.in(0).is_contiguous() && args.out(0).is_contiguous());
  if (args.out(0).shape().num_elems() == 0) return;
  const Order o = broadcast_order(args);
  const std::size_t elem_bytes = dtype_size(args.in(0).dtype());
  if (o.steps[static_cast<std::size_t>(o.rank - 1)] == 1)
    return copy_runs(args, o, static_cast<std::int64_t>(elem_bytes));
  if (elem_bytes == 1) return repeat_elems<std::uint8_t>(args, o);
  if (elem_bytes == 2) return repeat_elems<std::uint16_t>(args, o);
  if (elem_bytes == 4) return repeat_elems<std::uint32_t>(args, o);
  repeat_elems<std::uint64_t>(args, o);
}

}  // namespace

extern const op::KernelRow kBroadcastToCopy{.op = "broadcast_to", .name = "copy", .run = run_broadcast};
extern const op::KernelRow kConcatCopy{.op = "concat", .name = "copy", .run = run_concat};
extern const op::KernelRow kSplitCopy{.op = "split", .name = "copy", .run = run_split};
extern const op::KernelRow kTransposeCopy{.op = "transpose", .name = "copy", .run = run_transpose};

}  // namespace trireme::kernel
