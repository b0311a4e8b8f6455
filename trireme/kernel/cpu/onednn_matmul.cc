// matmul of bf16 matrices from oneDNN, which multiplies them with the processor's own units (AMX,
// avx512_bf16), adds up in f32 and rounds once. One single-threaded primitive per slice, as in
// onednn_conv2d.cc. Without such units widening to f32 (matmul.cc) is as fast.
#ifdef TRIREME_HAVE_ONEDNN

#include <oneapi/dnnl/dnnl.hpp>

#include "trireme/kernel/cpu/one_thread.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/slices.h"

namespace trireme::kernel {
namespace {

using dnnl::memory;

std::size_t round_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// C[m, n] = op(A) op(B), row-major and dense; a batch with one right factor is one tall matrix.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool one = false;  // a single product

  bool by_rows() const { return m >= n; }
  std::int64_t side() const { return by_rows() ? m : n; }
  int slices(int width) const {
    constexpr std::int64_t kMinSide = 16, kWorkPerElem = 64;
    return num_slices(side() / kMinSide, m * n * k / kWorkPerElem, width);
  }
};

Product product_of(const Shape& a, const Shape& b, const Shape& c, const op::Attrs& attrs) {
  Product p;
  p.transpose_a = attrs.get_bool("transpose_a");
  p.transpose_b = attrs.get_bool("transpose_b");
  p.m = c.dim(-2);
  p.n = c.dim(-1);
  p.k = a.dim(p.transpose_a ? -2 : -1);
  std::int64_t batch = 1;
  for (int d = 0; d < c.rank() - 2; ++d) batch *= c[d];
  const bool one_right = !p.transpose_a && b.num_elems() == b.dim(-1) * b.dim(-2) && a.rank() == c.rank();
  p.one = batch == 1 || one_right;
  if (p.one) p.m *= batch;
  return p;
}

// A part of the product that has `side` rows, or columns; operands keep the strides of the whole.
class Part {
 public:
  Part(const dnnl::engine& engine, const Product& p, std::int64_t side) {
    const std::int64_t m = p.by_rows() ? side : p.m, n = p.by_rows() ? p.n : side;
    const auto bf16 = memory::data_type::bf16;
    a_ = memory::desc({m, p.k}, bf16, p.transpose_a ? memory::dims{1, p.m} : memory::dims{p.k, 1});
    b_ = memory::desc({p.k, n}, bf16, p.transpose_b ? memory::dims{1, p.k} : memory::dims{p.n, 1});
    c_ = memory::desc({m, n}, bf16, memory::dims{p.n, 1});
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

// Every slice is a number of pieces, one after the other: where the result has many elements per product (the
// gradient of a large weight), oneDNN keeps all of them in f32. Pieces differ by at most one row or column:
// two parts serve them all.
class MatmulState final : public op::KernelState {
 public:
  MatmulState(const Product& p, int width)
      : engine_(dnnl::engine::kind::cpu, 0),
        slices_(p.slices(width)),
        pieces_(pieces_of(Part(engine_, p, p.side() / slices_), p.side() / slices_)),
        smaller_side_(p.side() / (slices_ * pieces_)),
        smaller_(engine_, p, smaller_side_),
        larger_(engine_, p, std::min(smaller_side_ + 1, p.side())) {}
  bool ok() const { return smaller_.ok() && larger_.ok(); }
  int slices() const { return slices_; }
  int pieces() const { return pieces_; }  // of each slice
  std::size_t slice_bytes() const { return std::max(smaller_.workspace_bytes(), larger_.workspace_bytes()); }
  void run(std::int64_t side, std::byte* a, std::byte* b, std::byte* c, std::byte* workspace) const {
    (side == smaller_side_ ? smaller_ : larger_).run(engine_, a, b, c, workspace);
  }

 private:
  static int pieces_of(const Part& whole, std::int64_t side) {
    constexpr std::size_t kMostBytes = std::size_t{8} << 20;
    constexpr std::int64_t kMinSide = 64;
    if (whole.workspace_bytes() <= kMostBytes) return 1;
    const auto wanted = static_cast<std::int64_t>(whole.workspace_bytes() / kMostBytes + 1);
    return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, side / kMinSide)));
  }

  dnnl::engine engine_;
  int slices_, pieces_;
  std::int64_t smaller_side_;
  Part smaller_, larger_;
};

bool has_units() {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return (static_cast<unsigned>(isa) & static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16)) ==
         static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
}

std::unique_ptr<MatmulState> make_state(const op::KernelQuery& q) {
  const OneThread one_thread;
  return std::make_unique<MatmulState>(
      product_of(q.inputs[0].shape, q.inputs[1].shape, q.outputs[0].shape, q.attrs), q.width);
}

bool applicable(const op::KernelQuery& q) {
  if (!all_of_dtype(q, DType::kBF16) || !fits_int32(q) || !has_units()) return false;
  const Product p = product_of(q.inputs[0].shape, q.inputs[1].shape, q.outputs[0].shape, q.attrs);
  return p.one && p.m * p.n * p.k > 0 && make_state(q)->ok();
}

std::size_t workspace_bytes(const op::KernelQuery& q) {
  const auto state = make_state(q);
  return state->slice_bytes() * static_cast<std::size_t>(state->slices());
}

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) { return make_state(q); }

void run(op::KernelArgs& args) {
  const auto& state = static_cast<const MatmulState&>(*args.state);
  const Product p = product_of(args.in(0).shape(), args.in(1).shape(), args.out(0).shape(), args.attrs);
  TR_CHECK(args.in(0).is_contiguous() && args.in(1).is_contiguous());
  std::byte *a = args.in(0).raw(), *b = args.in(1).raw(), *c = args.out(0).raw();
  constexpr std::int64_t kBytes = 2;
  const int pieces = state.slices() * state.pieces();
  for_slices(args.parallel, pieces, state.slices(), [&](std::int64_t first, std::int64_t last, int slice) {
    for (std::int64_t i = first; i < last; ++i) {
      const auto [begin, end] = slice_range(p.side(), pieces, static_cast<int>(i));
      const std::int64_t a_at = !p.by_rows()    ? 0
                                : p.transpose_a ? begin
                                                : begin * p.k,
                         b_at = p.by_rows()     ? 0
                                : p.transpose_b ? begin * p.k
                                                : begin,
                         c_at = p.by_rows() ? begin * p.n : begin;
      state.run(end - begin, a + kBytes * a_at, b + kBytes * b_at, c + kBytes * c_at,
                args.workspace.data() + slice * state.slice_bytes());
    }
  });
}

}  // namespace

constinit const op::KernelRow kMatmulOnednn{.op = "matmul",
                                            .name = "onednn",
                                            .run = run,
                                            .applicable = applicable,
                                            .workspace_bytes = workspace_bytes,
                                            .prepare = prepare};

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
