// matmul of bf16 matrices from oneDNN, which multiplies them with the processor's own units (AMX,
// avx512_bf16), adds up in f32 and rounds once. One single-threaded primitive per slice, as in
// onednn_conv2d.cc. Without such units widening to f32 (matmul.cc) is as fast.
//
// With a cast to f32 behind it (op `adapted`: the gradient of a weight) the result is written in f32, piece
// by piece, and rounded to bf16 there.
#ifdef TRIREME_HAVE_ONEDNN

#include <oneapi/dnnl/dnnl.hpp>

#include "trireme/kernel/cpu/inner.h"
#include "trireme/kernel/cpu/library.h"
#include "trireme/kernel/cpu/one_thread.h"
#include "trireme/kernel/cpu/query.h"
#include "trireme/kernel/cpu/rows.h"
#include "trireme/kernel/cpu/simd/loops.h"
#include "trireme/kernel/cpu/slices.h"
#include "trireme/op/ops.h"

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
  Part(const dnnl::engine& engine, const Product& p, std::int64_t side, bool wide) {
    const std::int64_t m = p.by_rows() ? side : p.m, n = p.by_rows() ? p.n : side;
    const auto bf16 = memory::data_type::bf16;
    a_ = memory::desc({m, p.k}, bf16, p.transpose_a ? memory::dims{1, p.m} : memory::dims{p.k, 1});
    b_ = memory::desc({p.k, n}, bf16, p.transpose_b ? memory::dims{1, p.k} : memory::dims{p.n, 1});
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

// Every slice is a number of pieces, one after the other: where the result has many elements per product (the
// gradient of a large weight), oneDNN keeps all of them in f32. Pieces differ by at most one row or column:
// two parts serve them all.
class MatmulState final : public op::KernelState {
 public:
  MatmulState(const Product& p, int width, bool wide)
      : engine_(dnnl::engine::kind::cpu, 0),
        wide_(wide),
        slices_(p.slices(width)),
        pieces_(pieces_of(Part(engine_, p, p.side() / slices_, wide), p, p.side() / slices_)),
        smaller_side_(p.side() / (slices_ * pieces_)),
        smaller_(engine_, p, smaller_side_, wide),
        larger_(engine_, p, std::min(smaller_side_ + 1, p.side()), wide) {}
  bool wide() const { return wide_; }
  bool ok() const { return smaller_.ok() && larger_.ok(); }
  int slices() const { return slices_; }
  int pieces() const { return pieces_; }  // of each slice
  std::size_t slice_bytes() const { return std::max(smaller_.workspace_bytes(), larger_.workspace_bytes()); }
  void run(std::int64_t side, std::byte* a, std::byte* b, std::byte* c, std::byte* workspace) const {
    (side == smaller_side_ ? smaller_ : larger_).run(engine_, a, b, c, workspace);
  }

 private:
  // What is rounded behind the product is still in the cache then.
  int pieces_of(const Part& whole, const Product& p, std::int64_t side) const {
    constexpr std::size_t kMostBytes = std::size_t{8} << 20, kHotBytes = std::size_t{1} << 20;
    constexpr std::int64_t kMinSide = 64;
    const auto result = static_cast<std::size_t>(side * (p.by_rows() ? p.n : p.m)) * sizeof(float);
    const std::size_t wanted =
        std::max(whole.workspace_bytes() / kMostBytes, wide_ ? result / kHotBytes : std::size_t{0}) + 1;
    return static_cast<int>(std::clamp<std::int64_t>(static_cast<std::int64_t>(wanted), 1,
                                                     std::max<std::int64_t>(1, side / kMinSide)));
  }

  dnnl::engine engine_;
  bool wide_;
  int slices_, pieces_;
  std::int64_t smaller_side_;
  Part smaller_, larger_;
};

std::unique_ptr<MatmulState> make_state(const op::KernelQuery& q) {
  const OneThread one_thread;
  return std::make_unique<MatmulState>(
      product_of(q.inputs[0].shape, q.inputs[1].shape, q.outputs[0].shape, q.attrs), q.width,
      q.outputs[0].dtype == DType::kF32);
}

bool can_multiply(const op::KernelQuery& q) {
  if (!fits_int32(q) || !has_bf16_units()) return false;
  const Product p = product_of(q.inputs[0].shape, q.inputs[1].shape, q.outputs[0].shape, q.attrs);
  return p.one && p.m * p.n * p.k > 0 && make_state(q)->ok();
}
bool applicable(const op::KernelQuery& q) { return all_of_dtype(q, DType::kBF16) && can_multiply(q); }

std::size_t workspace_bytes(const op::KernelQuery& q) {
  const auto state = make_state(q);
  return state->slice_bytes() * static_cast<std::size_t>(state->slices());
}

std::unique_ptr<op::KernelState> prepare(const op::KernelQuery& q) { return make_state(q); }

// To bf16 and back, in place.
void round(float* values, std::int64_t n) {
  constexpr std::int64_t kBlock = 512;
  std::uint16_t low[kBlock];
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t count = std::min(kBlock, n - i);
    vector_loops().f32_to_bf16(values + i, low, count);
    vector_loops().bf16_to_f32(low, values + i, count);
  }
}

void multiply(const op::KernelArgs& args, const MatmulState& state, const Product& p) {
  TR_CHECK(args.in(0).is_contiguous() && args.in(1).is_contiguous());
  std::byte *a = args.in(0).raw(), *b = args.in(1).raw(), *c = args.out(0).raw();
  constexpr std::int64_t kBytes = 2;
  const std::int64_t c_bytes = state.wide() ? 4 : kBytes;
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
      state.run(end - begin, a + kBytes * a_at, b + kBytes * b_at, c + c_bytes * c_at,
                args.workspace.data() + slice * state.slice_bytes());
      if (!state.wide()) continue;
      float* const made = reinterpret_cast<float*>(c) + c_at;
      if (p.by_rows()) round(made, (end - begin) * p.n);
      for (std::int64_t row = 0; !p.by_rows() && row < p.m; ++row) round(made + row * p.n, end - begin);
    }
  });
}

void run(op::KernelArgs& args) {
  multiply(args, static_cast<const MatmulState&>(*args.state),
           product_of(args.in(0).shape(), args.in(1).shape(), args.out(0).shape(), args.attrs));
}

// Op `adapted`: f32 from bf16 operands.
bool can_widen(const op::KernelQuery& q) {
  const auto inner = Inner::of(q);
  return inner && inner->adapted.def == &op::kMatmul && q.inputs[0].dtype == DType::kBF16 &&
         q.inputs[1].dtype == DType::kBF16 && q.outputs[0].dtype == DType::kF32 && !inner->adapted.in[0] &&
         !inner->adapted.in[1] && can_multiply(inner->query(q.width));
}

class WideState final : public op::KernelState {
 public:
  explicit WideState(const op::KernelQuery& q)
      : inner_(*Inner::of(q)), state_(make_state(inner_.query(q.width))) {}
  const MatmulState& state() const { return *state_; }
  const op::Attrs& attrs() const { return inner_.adapted.attrs; }

 private:
  Inner inner_;
  std::unique_ptr<MatmulState> state_;
};

void run_wide(op::KernelArgs& args) {
  const auto& wide = static_cast<const WideState&>(*args.state);
  multiply(args, wide.state(),
           product_of(args.in(0).shape(), args.in(1).shape(), args.out(0).shape(), wide.attrs()));
}

}  // namespace

constinit const op::KernelRow kMatmulOnednn{.op = "matmul",
                                            .name = "onednn",
                                            .run = run,
                                            .applicable = applicable,
                                            .workspace_bytes = workspace_bytes,
                                            .prepare = prepare};
const op::KernelRow kAdaptedMatmulOnednn{
    .op = "adapted",
    .name = "onednn_matmul",
    .run = run_wide,
    .applicable = can_widen,
    .workspace_bytes = [](const op::KernelQuery& q) { return workspace_bytes(Inner::of(q)->query(q.width)); },
    .prepare = [](const op::KernelQuery& q) -> std::unique_ptr<op::KernelState> {
      return std::make_unique<WideState>(q);
    }};

}  // namespace trireme::kernel

#endif  // TRIREME_HAVE_ONEDNN
