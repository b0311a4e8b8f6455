// rnn, lstm, gru, their gradients and recurrent_kept: products through cuBLASLt, one kernel for the cells of
// a step. Everything between inputs and outputs is computed and kept in f32 (f64 for f64), as the reference
// does; 16-bit inputs are widened first.
#include "trireme/kernel/cuda/recurrent/recurrent.h"

#include <fmt/format.h>

#include "trireme/kernel/cuda/matmul/blas.h"
#include "trireme/kernel/cuda/rows.h"
#include "trireme/op/sequence/recurrent_kept.h"

namespace trireme::kernel::cuda {

// Texts of recurrent.cu.
extern const char kCellText[], kCellStepText[], kCellBackText[], kSumRowsText[], kConvertText[];

namespace {

constexpr int kThreads = 256;
constexpr std::size_t kAlign = 256;

struct Sizes {
  std::int64_t steps, batch, size, units, gates;
  bool has_cell;
  std::int64_t rows() const { return gates * units; }
  std::int64_t state() const { return batch * units; }
  std::int64_t samples() const { return steps * batch; }
  int first_weight() const { return has_cell ? 3 : 2; }  // w_ih, w_hh, b_ih, b_hh of the inputs
  int num_inputs() const { return first_weight() + 4; }  // of the forward op
};

// Places in the workspace, handed out when a kernel is made.
class Places {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t at = used_;
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
    return at;
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t used_ = 0;
};

// Gates and states of all steps, in the order in which they lie in what is kept.
struct Trace {
  std::size_t xi = 0, hi = 0, h = 0, c = 0;
};

// Comes before the other texts. `cell`: kTanh, kRelu, kLstm, kGru.
std::string cell_text(const char* type, const char* cell, int gates) {
  return fmt::format(
      "typedef {} T; constexpr int kGates = {};\nenum {{ kTanh, kRelu, kLstm, kGru }};\nconstexpr int kCell "
      "= {};\n{}",
      type, gates, cell, kCellText);
}

class Recurrent final : public CudaKernel {
 public:
  static Made make(const CudaQuery& q);
  static std::size_t kept_bytes(const CudaQuery& q);
  std::size_t workspace_bytes() const override { return places_.used(); }
  Status enqueue(const CudaArgs& args) const override;

 private:
  // Arrays in the computing type for one call: inputs themselves, or places in the workspace.
  struct Arrays {
    std::byte *x, *w_ih, *w_hh, *b_ih, *b_hh, *xi, *hi, *h, *c, *dxi, *dhi, *dx, *dh, *dc, *dw_ih, *dw_hh;
  };

  Status find_functions(CudaDevice& device, const std::string& head);
  Status make_products(const CudaQuery& q);
  const char* take_query(const CudaQuery& q);  // the cell's name in the texts
  Trace take_trace(Places& home, bool all) const;
  void lay_out();
  Result<Arrays> arrays_of(const CudaArgs& a) const;
  Result<std::byte*> widened(const CudaArgs& a, int input, std::size_t at) const;
  Status convert(const CudaArgs& a, const Function& f, std::byte* from, std::byte* to, std::int64_t n) const;
  Status forward(const CudaArgs& a, const Arrays& r) const;
  Status back(const CudaArgs& a, const Arrays& r) const;
  Status sum_rows(const CudaArgs& a, std::byte* from, std::byte* to) const;
  // Gates of gru see products of x and of h apart; those of the others their sum, which is made in one array.
  bool apart() const { return s_.gates == 3; }
  bool stores_all() const { return backward_ || keeps_; }
  int first_given() const { return s_.num_inputs() + (has_kept_ ? 2 : 0); }  // dy, dh_n, dc_n
  std::byte* trace_of(const CudaArgs& a) const;
  std::size_t bytes(std::int64_t n) const { return static_cast<std::size_t>(n) * acc_bytes_; }
  std::byte* at(std::byte* array, std::int64_t elems) const { return array + bytes(elems); }
  Status multiply(const CudaArgs& a, const Product& p, std::byte* left, std::byte* right,
                  std::byte* to) const {
    return p.enqueue(a.stream, left, right, to, nullptr, a.workspace + products_);
  }
  static Dim blocks(std::int64_t n) { return {blocks_for(n, kThreads)}; }

  Sizes s_{};
  bool backward_ = false, wide_ = false;   // wide: elements are what is computed in
  bool has_kept_ = false, keeps_ = false;  // of recurrent_kept; keeps: more than nothing
  std::size_t acc_bytes_ = 0;
  const Function *step_ = nullptr, *back_ = nullptr, *sums_ = nullptr, *widen_ = nullptr, *narrow_ = nullptr;
  Product from_x_, from_h_, to_h_, to_x_, to_w_ih_, to_w_hh_;
  Places places_, kept_;
  Trace trace_;  // in the workspace, or in what is kept
  std::size_t products_ = 0, x_ = 0, w_ih_ = 0, w_hh_ = 0, dxi_ = 0, dhi_ = 0;
  std::size_t dx_ = 0, dh_ = 0, dc_ = 0, dw_ih_ = 0, dw_hh_ = 0;
};

const char* Recurrent::take_query(const CudaQuery& q) {
  const Shape &x = q.inputs[0].shape, &h0 = q.inputs[1].shape;
  const DType dtype = q.inputs[0].dtype;
  has_kept_ = q.attrs.find("cell") != nullptr;
  keeps_ = has_kept_ && q.attrs.get_int("bytes") > 0;
  backward_ = q.def.name.ends_with("_grad");
  wide_ = dtype == DType::kF32 || dtype == DType::kF64;
  acc_bytes_ = dtype == DType::kF64 ? sizeof(double) : sizeof(float);
  const std::string_view cell =
      has_kept_ ? std::string_view(q.attrs.get_text("cell")) : op::kept_cell_name(q.def, q.attrs);
  const int gates = cell == "lstm" ? 4 : cell == "gru" ? 3 : 1;
  s_ = {x[0], x[1], x[2], h0[1], gates, gates == 4};
  if (gates > 1) return gates == 4 ? "kLstm" : "kGru";
  return cell == "rnn_relu" ? "kRelu" : "kTanh";
}

Made Recurrent::make(const CudaQuery& q) {
  auto made = std::make_unique<Recurrent>();
  const char* const cell = made->take_query(q);
  TR_RETURN_IF_ERROR(made->find_functions(
      q.device, cell_text(cuda_type(q.inputs[0].dtype), cell, static_cast<int>(made->s_.gates))));
  TR_RETURN_IF_ERROR(made->make_products(q));
  made->lay_out();
  const std::int64_t bytes = made->keeps_ ? q.attrs.get_int("bytes") : 0;
  if (made->keeps_ && static_cast<std::size_t>(bytes) != made->kept_.used() + kAlign)
    return error(Code::kInvalid, "[cuda] {} keeps {} bytes for its gradient, got {}; make the plan anew",
                 q.def.name, made->kept_.used() + kAlign, bytes);
  return std::unique_ptr<CudaKernel>(std::move(made));
}

std::size_t Recurrent::kept_bytes(const CudaQuery& q) {
  Recurrent layer;
  layer.take_query(q);
  Places kept;
  layer.take_trace(kept, true);
  return kept.used() + kAlign;
}

Status Recurrent::find_functions(CudaDevice& device, const std::string& head) {
  TR_ASSIGN_OR_RETURN(step_, device.function(head + kCellStepText, "cell_step"));
  if (backward_) {
    TR_ASSIGN_OR_RETURN(back_, device.function(head + kCellBackText, "cell_back"));
    TR_ASSIGN_OR_RETURN(sums_, device.function(head + kSumRowsText, "sum_rows"));
  }
  if (wide_) return ok_status();
  TR_ASSIGN_OR_RETURN(widen_, device.function(head + kConvertText, "widen"));
  TR_ASSIGN_OR_RETURN(narrow_, device.function(head + kConvertText, "narrow"));
  return ok_status();
}

Status Recurrent::make_products(const CudaQuery& q) {
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k, bool turn_a, bool turn_b,
                           bool add) {
    ProductSpec spec;
    spec.dtype = acc_bytes_ == sizeof(double) ? DType::kF64 : DType::kF32;
    spec.m = m, spec.n = n, spec.k = k;
    spec.transpose_a = turn_a, spec.transpose_b = turn_b;
    spec.beta = add ? 1 : 0;
    spec.tf32 = q.tf32;
    return Product::make(q.device, spec);
  };
  TR_ASSIGN_OR_RETURN(from_x_, product(s_.samples(), s_.rows(), s_.size, false, true, false));
  TR_ASSIGN_OR_RETURN(from_h_, product(s_.batch, s_.rows(), s_.units, false, true, !apart()));
  if (!backward_) return ok_status();
  TR_ASSIGN_OR_RETURN(to_h_, product(s_.batch, s_.units, s_.rows(), false, false, true));
  TR_ASSIGN_OR_RETURN(to_x_, product(s_.samples(), s_.size, s_.rows(), false, false, false));
  TR_ASSIGN_OR_RETURN(to_w_ih_, product(s_.rows(), s_.size, s_.samples(), true, false, false));
  TR_ASSIGN_OR_RETURN(to_w_hh_, product(s_.rows(), s_.units, s_.samples(), true, false, false));
  return ok_status();
}

// h holds the state before step 0 and after every step, where y (or nobody) does not: all of them for
// gradients and for 16-bit elements. The forward op needs one c and the products of one step.
Trace Recurrent::take_trace(Places& home, bool all) const {
  const std::int64_t states = (s_.steps + 1) * s_.state();
  const auto take = [&](std::int64_t n) { return home.take(bytes(n)); };
  Trace t;
  t.xi = take(s_.samples() * s_.rows());
  if (apart()) t.hi = take((all ? s_.samples() : s_.batch) * s_.rows());
  if (all || !wide_) t.h = take(states);
  if (s_.has_cell) t.c = take(all ? states : s_.state());
  return t;
}

void Recurrent::lay_out() {
  std::size_t most = 0;
  for (const Product* p : {&from_x_, &from_h_, &to_h_, &to_x_, &to_w_ih_, &to_w_hh_})
    most = std::max(most, p->workspace_bytes());
  const auto take = [&](std::int64_t n) { return places_.take(bytes(n)); };
  products_ = places_.take(most);
  trace_ = take_trace(keeps_ ? kept_ : places_, stores_all());
  if (keeps_ && backward_) {
    dxi_ = take(s_.samples() * s_.rows());
    if (apart()) dhi_ = take(s_.samples() * s_.rows());
  }
  if (!wide_) {
    x_ = take(s_.samples() * s_.size);
    w_ih_ = take(s_.rows() * s_.size);
    w_hh_ = take(s_.rows() * s_.units);
  }
  if (!backward_ || wide_) return;
  dx_ = take(s_.samples() * s_.size);
  dh_ = take(s_.state());
  if (s_.has_cell) dc_ = take(s_.state());
  dw_ih_ = take(s_.rows() * s_.size);
  dw_hh_ = take(s_.rows() * s_.units);
}

Status Recurrent::convert(const CudaArgs& a, const Function& f, std::byte* from, std::byte* to,
                          std::int64_t n) const {
  return n == 0 ? ok_status() : launch(a.stream, f, blocks(n), {kThreads}, 0, from, to, n);
}

Result<std::byte*> Recurrent::widened(const CudaArgs& a, int input, std::size_t place) const {
  const Tensor& t = a.in(input);
  if (wide_) return t.raw();
  TR_RETURN_IF_ERROR(convert(a, *widen_, t.raw(), a.workspace + place, t.shape().num_elems()));
  return a.workspace + place;
}

std::byte* Recurrent::trace_of(const CudaArgs& a) const {
  if (!keeps_) return a.workspace;
  std::byte* const kept = backward_ ? a.in(s_.num_inputs() + 1).raw() : a.outputs.back().raw();
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(kept) % kAlign;
  return beyond == 0 ? kept : kept + (kAlign - beyond);
}

Result<Recurrent::Arrays> Recurrent::arrays_of(const CudaArgs& a) const {
  const int w = s_.first_weight();
  const auto place = [&](std::size_t p) { return a.workspace + p; };
  Arrays r{};
  TR_ASSIGN_OR_RETURN(r.x, widened(a, 0, x_));
  TR_ASSIGN_OR_RETURN(r.w_ih, widened(a, w, w_ih_));
  TR_ASSIGN_OR_RETURN(r.w_hh, widened(a, w + 1, w_hh_));
  r.b_ih = a.in(w + 2).raw(), r.b_hh = a.in(w + 3).raw();
  std::byte* const trace = trace_of(a);
  r.xi = trace + trace_.xi, r.hi = apart() ? trace + trace_.hi : r.xi;
  r.h = trace + trace_.h, r.c = trace + trace_.c;
  if (!backward_) return r;
  r.dxi = keeps_ ? place(dxi_) : r.xi;
  r.dhi = !apart() ? r.dxi : keeps_ ? place(dhi_) : r.hi;
  r.dx = wide_ ? a.out(0).raw() : place(dx_);
  r.dh = wide_ ? a.out(1).raw() : place(dh_);
  r.dc = !s_.has_cell ? nullptr : wide_ ? a.out(2).raw() : place(dc_);
  r.dw_ih = wide_ ? a.out(w).raw() : place(dw_ih_);
  r.dw_hh = wide_ ? a.out(w + 1).raw() : place(dw_hh_);
  return r;
}

Status copy(const CudaArgs& a, const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes == 0) return ok_status();
  const CudaDevice& device = a.stream.device();
  device.enter();
  return device.lib().check(
      device.lib().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                                 bytes, a.stream.raw()),
      "copying a state");
}

Status Recurrent::forward(const CudaArgs& a, const Arrays& r) const {
  const std::int64_t state = s_.state();
  const bool stored = stores_all() || !wide_;  // states lie in h, not in y
  std::byte *none = nullptr, *y = backward_ ? none : a.out(0).raw();
  TR_RETURN_IF_ERROR(multiply(a, from_x_, r.x, r.w_ih, r.xi));
  std::byte *h = a.in(1).raw(), *c = none;
  if (stored) {
    h = r.h;
    TR_RETURN_IF_ERROR(wide_ ? copy(a, a.in(1).raw(), h, bytes(state))
                             : convert(a, *widen_, a.in(1).raw(), h, state));
  }
  if (s_.has_cell) {
    c = r.c;
    TR_RETURN_IF_ERROR(wide_ ? copy(a, a.in(2).raw(), c, bytes(state))
                             : convert(a, *widen_, a.in(2).raw(), c, state));
  }
  if (state == 0) return ok_status();
  const std::size_t step_bytes = static_cast<std::size_t>(state) * dtype_size(a.in(0).dtype());
  for (std::int64_t t = 0; t < s_.steps; ++t) {
    std::byte* xi = at(r.xi, t * s_.batch * s_.rows());
    std::byte* hi = !apart() ? xi : stores_all() ? at(r.hi, t * s_.batch * s_.rows()) : r.hi;
    std::byte* next_h = stored ? at(h, state) : y;
    std::byte* next_c = s_.has_cell && stores_all() ? at(c, state) : c;
    TR_RETURN_IF_ERROR(multiply(a, from_h_, h, r.w_hh, hi));
    const bool last = !backward_ && t + 1 == s_.steps;
    TR_RETURN_IF_ERROR(launch(a.stream, *step_, blocks(state), {kThreads}, 0, xi, hi, r.b_ih, r.b_hh, h, c,
                              next_h, next_c, stored ? y : none, last ? a.out(1).raw() : none,
                              last && s_.has_cell ? a.out(2).raw() : none, s_.batch, s_.units));
    h = next_h, c = next_c;
    if (y != nullptr) y += step_bytes;
  }
  return ok_status();
}

Status Recurrent::sum_rows(const CudaArgs& a, std::byte* from, std::byte* to) const {
  if (s_.rows() == 0) return ok_status();
  const unsigned columns = 32;
  return launch(a.stream, *sums_, {blocks_for(s_.rows(), columns)}, {columns, 32}, 0, from, to, s_.samples(),
                s_.rows());
}

Status Recurrent::back(const CudaArgs& a, const Arrays& r) const {
  const std::int64_t state = s_.state(), gates = s_.batch * s_.rows();
  const int given = first_given(), w = s_.first_weight();
  const auto load = [&](int input, std::byte* to) {
    std::byte* from = a.in(input).raw();
    return wide_ ? copy(a, from, to, bytes(state)) : convert(a, *widen_, from, to, state);
  };
  TR_RETURN_IF_ERROR(load(given + 1, r.dh));
  if (s_.has_cell) TR_RETURN_IF_ERROR(load(given + 2, r.dc));
  const std::size_t step_bytes = static_cast<std::size_t>(state) * dtype_size(a.in(0).dtype());
  for (std::int64_t t = s_.steps - 1; t >= 0 && state > 0; --t) {
    std::byte *xi = at(r.xi, t * gates), *hi = at(r.hi, t * gates), *dhi = at(r.dhi, t * gates);
    std::byte* dy = a.in(given).raw() + static_cast<std::size_t>(t) * step_bytes;
    TR_RETURN_IF_ERROR(launch(a.stream, *back_, blocks(state), {kThreads}, 0, xi, hi, r.b_ih, r.b_hh,
                              at(r.h, t * state), s_.has_cell ? at(r.c, t * state) : nullptr, dy, r.dh, r.dc,
                              at(r.dxi, t * gates), dhi, s_.batch, s_.units));
    TR_RETURN_IF_ERROR(multiply(a, to_h_, dhi, r.w_hh, r.dh));
  }
  TR_RETURN_IF_ERROR(multiply(a, to_x_, r.dxi, r.w_ih, r.dx));
  TR_RETURN_IF_ERROR(multiply(a, to_w_ih_, r.dxi, r.x, r.dw_ih));
  TR_RETURN_IF_ERROR(multiply(a, to_w_hh_, r.dhi, r.h, r.dw_hh));
  TR_RETURN_IF_ERROR(sum_rows(a, r.dxi, a.out(w + 2).raw()));
  TR_RETURN_IF_ERROR(sum_rows(a, r.dhi, a.out(w + 3).raw()));
  if (wide_) return ok_status();
  std::byte* results[] = {r.dx, r.dh, r.dc, r.dw_ih, r.dw_hh};
  const int outputs[] = {0, 1, 2, w, w + 1};
  for (int i = 0; i < 5; ++i) {
    if (results[i] == nullptr) continue;
    const Tensor& out = a.out(outputs[i]);
    TR_RETURN_IF_ERROR(convert(a, *narrow_, results[i], out.raw(), out.shape().num_elems()));
  }
  return ok_status();
}

Status Recurrent::enqueue(const CudaArgs& a) const {
  if (!backward_ && s_.steps == 0) {
    TR_RETURN_IF_ERROR(copy(a, a.in(1).raw(), a.out(1).raw(), a.in(1).type().num_bytes()));
    return s_.has_cell ? copy(a, a.in(2).raw(), a.out(2).raw(), a.in(2).type().num_bytes()) : ok_status();
  }
  TR_ASSIGN_OR_RETURN(const Arrays r, arrays_of(a));
  if (!backward_ || !keeps_) TR_RETURN_IF_ERROR(forward(a, r));
  return backward_ ? back(a, r) : ok_status();
}

}  // namespace

Made make_recurrent(const CudaQuery& q) { return Recurrent::make(q); }

std::size_t own_reserve_bytes(const CudaQuery& forward) { return Recurrent::kept_bytes(forward); }

}  // namespace trireme::kernel::cuda
