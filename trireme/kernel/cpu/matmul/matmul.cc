// matmul: gemms of the library. One matrix is cut into blocks of the output, a batch into runs of matrices.
// 16-bit operands are widened to f32 in the workspace, multiplied there, and the result is rounded once.
#include <limits>

#include "trireme/kernel/cpu/matmul/gemm.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/kernel/cpu/wide.h"
#include "trireme/op/op.h"

namespace trireme::kernel {
namespace {

bool applicable(const op::KernelQuery& q) {
  return (q.inputs[0].dtype == DType::kF32 || is_half(q.inputs[0].dtype)) && fits_int32(q) && gemm_usable();
}

// Elements that an operand takes in the workspace: whole cache lines.
std::int64_t padded(std::int64_t elems) { return (elems + 15) / 16 * 16; }

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery&) {
  gemm_prepare();
  return nullptr;
}

constexpr std::int64_t kWorkPerElem = 32;  // multiply-adds that cost about as much as touching one element

// A product cut into rows x columns parts, near squares, so that little is packed for each; where there are
// many threads more parts than threads, so that one that is held up leaves parts to the others. Each part is
// written by one call: who makes it does not matter to the bits.
struct Parts {
  std::int64_t rows = 1, columns = 1;
  int threads = 1;
  std::int64_t count() const { return rows * columns; }
};

constexpr std::int64_t kEdge = 16;  // parts begin at multiples of a register block of the library
std::int64_t blocks_of(std::int64_t side) { return (side + kEdge - 1) / kEdge; }

Parts parts_of(const Gemm& whole, int width) {
  const int slices =
      num_slices(blocks_of(whole.m) * blocks_of(whole.n), whole.m * whole.n * whole.k / kWorkPerElem, width);
  if (slices == 1) return {};
  const std::int64_t wanted = slices >= kManyThreads ? 4 * slices : slices;
  Parts best;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t rows = 1; rows <= std::min(wanted, blocks_of(whole.m)); ++rows) {
    const std::int64_t columns = std::min((wanted + rows - 1) / rows, blocks_of(whole.n));
    if (rows * columns < slices) continue;
    const double packed = static_cast<double>(rows) / static_cast<double>(whole.m) +
                          static_cast<double>(columns) / static_cast<double>(whole.n);
    if (packed < least) least = packed, best = {rows, columns, slices};
  }
  return best;
}

// Where there are many parts, rows of B (and of a transposed A) lie far apart for each, which costs the
// library up to a third of its speed: a part then copies some rows of its columns at a time to where they are
// dense.
constexpr std::int64_t kPanelRows = 512;
bool has_panels(const Gemm& whole, const Parts& parts) {
  return parts.threads >= kManyThreads && parts.columns > 1 && !whole.transpose_b && whole.m >= 256 &&
         whole.k >= kPanelRows / 2;
}
// Elements of the panels of one thread, that of B first; 0: there are none.
std::int64_t panel_elems(const Gemm& whole, const Parts& parts) {
  if (!has_panels(whole, parts)) return 0;
  const auto side = [](std::int64_t size, std::int64_t count) {
    return (blocks_of(size) + count - 1) / count * kEdge;
  };
  return std::min(kPanelRows, whole.k) *
         (side(whole.n, parts.columns) + (whole.transpose_a ? side(whole.m, parts.rows) : 0));
}

void copy_rows(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t width, float* to) {
  for (std::int64_t row = 0; row < rows; ++row) std::copy_n(from + row * stride, width, to + row * width);
}

void multiply_by_panels(const Gemm& part, float* panel) {
  for (std::int64_t k = 0; k < part.k; k += kPanelRows) {
    Gemm some = part;
    some.k = std::min(kPanelRows, part.k - k);
    copy_rows(part.b + k * part.ldb, part.ldb, some.k, part.n, panel);
    some.b = panel;
    some.ldb = part.n;
    if (part.transpose_a) {
      float* const left = panel + some.k * part.n;
      copy_rows(part.a + k * part.lda, part.lda, some.k, part.m, left);
      some.a = left;
      some.lda = part.m;
    } else {
      some.a += k;
    }
    if (k > 0) some.beta = 1;
    gemm(some);
  }
}

void multiply_part(const Gemm& whole, const Parts& parts, std::int64_t index, float* panel) {
  const auto range = [](std::int64_t side, std::int64_t count, std::int64_t i) {
    const SliceRange r = slice_range(blocks_of(side), static_cast<int>(count), static_cast<int>(i));
    return SliceRange{r.begin * kEdge, std::min(r.end * kEdge, side)};
  };
  const SliceRange rows = range(whole.m, parts.rows, index / parts.columns),
                   columns = range(whole.n, parts.columns, index % parts.columns);
  Gemm part = whole;
  part.m = rows.end - rows.begin;
  part.n = columns.end - columns.begin;
  part.a += whole.transpose_a ? rows.begin : rows.begin * whole.lda;
  part.b += whole.transpose_b ? columns.begin * whole.ldb : columns.begin;
  part.c += rows.begin * whole.ldc + columns.begin;
  if (panel != nullptr) return multiply_by_panels(part, panel);
  gemm(part);
}

// `panels`: panel_elems() for every thread.
void multiply_one(op::Parallel& parallel, const Gemm& whole, float* panels) {
  const Parts parts = parts_of(whole, parallel.width());
  if (parts.count() == 1) return gemm(whole);
  const std::int64_t elems = panel_elems(whole, parts);
  for_each_dynamic(parallel, parts.count(), parts.threads, [&](std::int64_t index, int thread) {
    multiply_part(whole, parts, index, elems > 0 ? panels + thread * elems : nullptr);
  });
}

// Where matrix `index` of the result's batch begins in an operand, in elements; sizes of 1 are broadcast.
std::int64_t matrix_at(std::int64_t index, const Shape& result, const Shape& operand) {
  const int lead = result.rank() - operand.rank();
  std::int64_t at = 0, step = operand.dim(-1) * operand.dim(-2);
  for (int d = result.rank() - 3; d >= lead; --d) {
    if (operand[d - lead] != 1) at += index % result[d] * step;
    index /= result[d];
    step *= operand[d - lead];
  }
  return at;
}

// The sizes of one product, and how many there are.
struct Products {
  Gemm first;
  std::int64_t batch = 1;

  Products(const Shape& a, const Shape& b, const Shape& c, const op::Attrs& attrs) {
    first.transpose_a = attrs.get_bool("transpose_a");
    first.transpose_b = attrs.get_bool("transpose_b");
    first.m = c.dim(-2);
    first.n = first.ldc = c.dim(-1);
    first.k = a.dim(first.transpose_a ? -2 : -1);
    first.lda = a.dim(-1);
    first.ldb = b.dim(-1);
    for (int d = 0; d < c.rank() - 2; ++d) batch *= c[d];
    // One right factor for all: the rows of the batch are the rows of one matrix.
    if (!first.transpose_a && b.num_elems() == b.dim(-1) * b.dim(-2) && a.rank() == c.rank()) {
      first.m *= batch;
      batch = batch > 0 ? 1 : 0;
    }
  }
};

// 16-bit operands in f32, then the panels.
std::int64_t wide_elems(const op::KernelQuery& q) {
  if (!is_half(q.inputs[0].dtype)) return 0;
  return padded(q.inputs[0].shape.num_elems()) + padded(q.inputs[1].shape.num_elems()) +
         padded(q.outputs[0].shape.num_elems());
}
std::size_t workspace_bytes(const op::KernelQuery& q) {
  const Products p(q.inputs[0].shape, q.inputs[1].shape, q.outputs[0].shape, q.attrs);
  std::int64_t elems = wide_elems(q);
  if (p.batch == 1) {
    const Parts parts = parts_of(p.first, q.width);
    elems += parts.threads * panel_elems(p.first, parts);
  }
  return static_cast<std::size_t>(elems) * sizeof(float);
}

// From the operands' first elements; `panels` is what is left of the workspace.
void multiply(op::KernelArgs& args, const float* a_first, const float* b_first, float* c_first,
              float* panels) {
  const Shape &a = args.in(0).shape(), &b = args.in(1).shape(), &c = args.out(0).shape();
  auto [first, batch] = Products(a, b, c, args.attrs);
  first.a = a_first;
  first.b = b_first;
  first.c = c_first;
  if (batch == 1) return multiply_one(args.parallel, first, panels);
  const std::int64_t work = batch * first.m * first.n * first.k;
  const int slices = num_slices(batch, work / kWorkPerElem, args.parallel.width());
  for_slices(args.parallel, batch, slices, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      Gemm one = first;
      one.a += matrix_at(i, c, a);
      one.b += matrix_at(i, c, b);
      one.c += i * one.m * one.n;
      gemm(one);
    }
  });
}

const std::uint16_t* halves(const Tensor& t) {
  TR_CHECK(t.is_contiguous());
  return reinterpret_cast<const std::uint16_t*>(t.raw());
}

void run(op::KernelArgs& args) {
  const DType dtype = args.out(0).dtype();
  if (dtype == DType::kF32) {
    return multiply(args, f32_in(args, 0), f32_in(args, 1), f32_out(args, 0),
                    reinterpret_cast<float*>(args.workspace.data()));
  }
  const VectorLoops& loops = vector_loops();
  const bool bf16 = dtype == DType::kBF16;
  auto* wide = reinterpret_cast<float*>(args.workspace.data());
  float* at[2];
  for (int i = 0; i < 2; ++i) {
    const std::uint16_t* from = halves(args.in(i));
    at[i] = wide;
    for_elems(args.parallel, args.in(i).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
      (bf16 ? loops.bf16_to_f32 : loops.f16_to_f32)(from + begin, at[i] + begin, end - begin);
    });
    wide += padded(args.in(i).shape().num_elems());
  }
  multiply(args, at[0], at[1], wide, wide + padded(args.out(0).shape().num_elems()));
  auto* to = reinterpret_cast<std::uint16_t*>(args.out(0).raw());
  for_elems(args.parallel, args.out(0).shape().num_elems(), [&](std::int64_t begin, std::int64_t end) {
    (bf16 ? loops.f32_to_bf16 : loops.f32_to_f16)(wide + begin, to + begin, end - begin);
  });
}

}  // namespace

extern const op::KernelRow kMatmulGemm{.op = "matmul",
                                       .name = kGemmRowName,
                                       .run = run,
                                       .applicable = applicable,
                                       .workspace_bytes = workspace_bytes,
                                       .prepare = prepare};

}  // namespace trireme::kernel
