// matmul of bf16 matrices from oneDNN, which multiplies them with the processor's own units (AMX,
// avx512_bf16), adds up in f32 and rounds once. One single-threaded primitive per slice, as in
// onednn_conv2d.cc. Without such units widening to f32 (matmul.cc) is as fast.
//
// Formed: an f32 product of bf16 operands (the gradient of a weight), and a bf16 product whose B is f32
// (a weight), of which every piece rounds its part.
#ifdef TRIREME_HAVE_ONEDNN

#include <limits>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>

#include "trireme/kernel/cpu/library.h"
#include "trireme/kernel/cpu/matmul/matmul_shape.h"
#include "trireme/kernel/cpu/one_thread.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

using dnnl::memory;

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// Some rows and columns of the product; operands keep the strides of the whole, a rounded B is dense.
class Part {
 public:
  Part(const dnnl::engine& engine, const MatmulShape& p, std::int64_t m, std::int64_t n, bool wide) {
    const auto bf16 = memory::data_type::bf16;
    a_ = memory::desc({m, p.k}, bf16, p.transpose_a ? memory::dims{1, p.m} : memory::dims{p.k, 1});
    b_ = memory::desc({p.k, n}, bf16,
                      p.transpose_b ? memory::dims{1, p.k} : memory::dims{p.rounds ? n : p.n, 1});
    c_ = memory::desc({m, n}, wide ? memory::data_type::f32 : bf16, memory::dims{p.n, 1});
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc pd(engine, a_, b_, c_, attr, /*allow_empty=*/true);
    if (!pd || std::string_view(pd.impl_info_str()).starts_with("ref")) return;
    scratch_ = pd.scratchpad_desc();
    product_ = dnnl::matmul(pd);
    ok_ = true;
  }
  bool ok() const { return ok_; }
  std::size_t workspace_bytes() const { return round_up(scratch_.get_size()); }
  void run(const dnnl::engine& engine, std::byte* a, std::byte* b, std::byte* c, std::byte* workspace) const {
    const OneThread one_thread;
    dnnl::stream stream(engine);
    product_.execute(stream, {{DNNL_ARG_SRC, memory(a_, engine, a)},
                              {DNNL_ARG_WEIGHTS, memory(b_, engine, b)},
                              {DNNL_ARG_DST, memory(c_, engine, c)},
                              {DNNL_ARG_SCRATCHPAD, memory(scratch_, engine, workspace)}});
  }

 private:
  memory::desc a_, b_, c_, scratch_;
  dnnl::primitive product_;
  bool ok_ = false;
};

// Rows x columns of parts. oneDNN packs B for every part, and a transposed A; the rest of A it reads where it
// is. Where there are many threads there are four parts a thread, and whoever is free takes the next. A
// rounded B is cut over columns alone, so that each of its elements is rounded once, and into more parts than
// there are threads, so that what is rounded stays small.
struct Grid {
  static constexpr std::int64_t kEdge = 32;  // parts begin at multiples of a tile of the units
  std::int64_t rows = 1, columns = 1;
  int threads = 1;

  static std::int64_t blocks(std::int64_t side) { return (side + kEdge - 1) / kEdge; }
  static SliceRange range(std::int64_t side, std::int64_t count, std::int64_t i) {
    const SliceRange r = slice_range(blocks(side), static_cast<int>(count), static_cast<int>(i));
    return {r.begin * kEdge, std::min(r.end * kEdge, side)};
  }
  std::int64_t count() const { return rows * columns; }

  static Grid of(const MatmulShape& p, int width) {
    constexpr std::int64_t kWorkPerElem = 64, kMostRounded = std::int64_t{1} << 20;  // elements
    const std::int64_t row_blocks = p.rounds ? 1 : blocks(p.m), column_blocks = blocks(p.n);
    Grid best;
    best.threads = num_slices(row_blocks * column_blocks, p.m * p.n * p.k / kWorkPerElem, width);
    const bool many = best.threads >= kManyThreads;
    if (p.rounds) {
      const std::int64_t pieces =
          std::max<std::int64_t>(p.n / best.threads * p.k / kMostRounded + 1, many ? 2 : 1);
      best.columns = std::min(best.threads * pieces, column_blocks);
      return best;
    }
    const std::int64_t wanted = best.threads * (many ? 4 : 1);
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t rows = 1; rows <= std::min<std::int64_t>(wanted, row_blocks); ++rows) {
      const std::int64_t columns = std::min((wanted + rows - 1) / rows, column_blocks);
      const double share = static_cast<double>((row_blocks + rows - 1) / rows) *
                           static_cast<double>((column_blocks + columns - 1) / columns);
      const double packed =
          static_cast<double>(rows * p.n) + (p.transpose_a ? 1 : 0.25) * static_cast<double>(columns * p.m);
      // The largest part decides; packing an element costs about 32 products of it.
      const double kept_busy =
          share * kEdge * kEdge * static_cast<double>((rows * columns + best.threads - 1) / best.threads);
      const double cost = kept_busy + 32 * packed / best.threads;
      if (cost < least) least = cost, best.rows = rows, best.columns = columns;
    }
    return best;
  }
};

// A primitive for every size of a part.
class MatmulState final : public op::KernelState {
 public:
  MatmulState(const MatmulShape& p, int width, bool wide)
      : engine_(dnnl::engine::kind::cpu, 0), wide_(wide), grid_(Grid::of(p, width)) {
    for (std::int64_t i = 0; i < grid_.count(); ++i) {
      const auto [rows, columns] = sides(p, i);
      const auto [at, is_new] = parts_.try_emplace(std::pair(rows, columns), engine_, p, rows, columns, wide);
      ok_ &= at->second.ok();
      scratch_bytes_ = std::max(scratch_bytes_, at->second.workspace_bytes());
      if (p.rounds)
        rounded_bytes_ = std::max(rounded_bytes_, round_up(static_cast<std::size_t>(columns * p.k) * 2));
    }
  }
  bool wide() const { return wide_; }
  bool ok() const { return ok_; }
  const Grid& grid() const { return grid_; }
  // The scratch of a primitive, then a part of B in bf16.
  std::size_t slice_bytes() const { return scratch_bytes_ + rounded_bytes_; }
  std::size_t rounded_offset() const { return scratch_bytes_; }
  void run(std::int64_t rows, std::int64_t columns, std::byte* a, std::byte* b, std::byte* c,
           std::byte* workspace) const {
    parts_.at(std::pair(rows, columns)).run(engine_, a, b, c, workspace);
  }

 private:
  std::pair<std::int64_t, std::int64_t> sides(const MatmulShape& p, std::int64_t i) const {
    const SliceRange rows = Grid::range(p.m, grid_.rows, i / grid_.columns),
                     columns = Grid::range(p.n, grid_.columns, i % grid_.columns);
    return {rows.end - rows.begin, columns.end - columns.begin};
  }

  dnnl::engine engine_;
  bool wide_, ok_ = true;
  Grid grid_;
  std::map<std::pair<std::int64_t, std::int64_t>, Part> parts_;
  std::size_t scratch_bytes_ = 0, rounded_bytes_ = 0;
};

std::unique_ptr<MatmulState> make_state(const op::KernelQuery& q) {
  const OneThread one_thread;
  return std::make_unique<MatmulState>(matmul_shape(q.inputs[0], q.inputs[1], q.outputs[0].shape, q.attrs),
                                       q.width, q.outputs[0].dtype == DType::kF32);
}

bool can_multiply(const op::KernelQuery& q) {
  if (!fits_int32(q) || !has_bf16_units()) return false;
  const MatmulShape p = matmul_shape(q.inputs[0], q.inputs[1], q.outputs[0].shape, q.attrs);
  return p.one && p.m * p.n * p.k > 0 && !(p.rounds && p.m >= p.n) && make_state(q)->ok();
}
bool applicable(const op::KernelQuery& q) { return all_of_dtype(q, DType::kBF16) && can_multiply(q); }

std::size_t workspace_bytes(const op::KernelQuery& q) {
  const auto state = make_state(q);
  return state->slice_bytes() * static_cast<std::size_t>(state->grid().threads);
}

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) { return make_state(q); }

// Some columns of B, dense.
void round_part(const MatmulShape& p, const float* b, SliceRange columns, std::byte* to) {
  auto* const low = reinterpret_cast<std::uint16_t*>(to);
  const std::int64_t n = columns.end - columns.begin;
  if (p.transpose_b) return vector_loops().f32_to_bf16(b + columns.begin * p.k, low, n * p.k);
  for (std::int64_t row = 0; row < p.k; ++row)
    vector_loops().f32_to_bf16(b + row * p.n + columns.begin, low + row * n, n);
}

void multiply(const op::KernelArgs& args, const MatmulState& state, const MatmulShape& p) {
  TR_CHECK(args.in(0).is_contiguous() && args.in(1).is_contiguous());
  std::byte *a = args.in(0).raw(), *b = args.in(1).raw(), *c = args.out(0).raw();
  constexpr std::int64_t kBytes = 2;
  const std::int64_t c_bytes = state.wide() ? 4 : kBytes;
  const Grid& grid = state.grid();
  const auto multiply_part = [&](std::int64_t i, std::byte* own) {
    const SliceRange rows = Grid::range(p.m, grid.rows, i / grid.columns),
                     columns = Grid::range(p.n, grid.columns, i % grid.columns);
    std::byte* right = b + kBytes * (p.transpose_b ? columns.begin * p.k : columns.begin);
    if (p.rounds) {
      right = own + state.rounded_offset();
      round_part(p, reinterpret_cast<const float*>(b), columns, right);
    }
    state.run(rows.end - rows.begin, columns.end - columns.begin,
              a + kBytes * (p.transpose_a ? rows.begin : rows.begin * p.k), right,
              c + c_bytes * (rows.begin * p.n + columns.begin), own);
  };
  for_each_dynamic(args.parallel, grid.count(), grid.threads, [&](std::int64_t i, int slice) {
    multiply_part(i, args.workspace.data() + static_cast<std::size_t>(slice) * state.slice_bytes());
  });
}

void run(op::KernelArgs& args) {
  multiply(args, static_cast<const MatmulState&>(*args.state),
           matmul_shape(args.in(0).type(), args.in(1).type(), args.out(0).shape(), args.attrs));
}

}  // namespace

extern constinit const op::KernelRow kMatmulOnednn{.op = "matmul",
                                                   .name = "onednn",
                                                   .run = run,
                                                   .applicable = applicable,
                                                   .workspace_bytes = workspace_bytes,
                                                   .prepare = prepare};
extern constinit const op::KernelRow kMatmulFormedOnednn{
    .op = "matmul",
    .name = "onednn_matmul",
    .run = run,
    .applicable = [](const op::KernelQuery& q) { return is_bf16_product(q) && can_multiply(q); },
    .workspace_bytes = workspace_bytes,
    .prepare = prepare,
    .takes = takes_formed};

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
