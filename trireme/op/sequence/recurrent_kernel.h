// Recurrent networks over a sequence and their gradients, on arrays of plain or dual numbers.
#pragma once

#include "trireme/op/sequence/cells.h"
#include "trireme/op/sequence/recurrent.h"
#include "trireme/op/sequence/scratch.h"

namespace trireme::op::detail {

template <typename Cell, typename N>
class Recurrence {
 public:
  Recurrence(const TensorType& x, const TensorType& h0, Scratch<N>& scratch, bool backward)
      : steps_(x.shape[0]),
        batch_(x.shape[1]),
        size_(x.shape[2]),
        units_(h0.shape[1]),
        rows_(Cell::kGates * units_) {
    this->x = scratch.take(steps_ * batch_ * size_);
    h = scratch.take((steps_ + 1) * state());
    c = scratch.take((steps_ + 1) * state());
    w_ih = scratch.take(rows_ * size_);
    w_hh = scratch.take(rows_ * units_);
    b_ih = scratch.take(rows_);
    b_hh = scratch.take(rows_);
    // The forward op needs the gates of one sample at a time only.
    const std::int64_t kept = backward ? steps_ * batch_ : 1;
    gates_x = scratch.take(kept * rows_);
    gates_h = scratch.take(kept * rows_);
    keeps_gates_ = backward;
    if (!backward) return;
    dy = scratch.take(steps_ * state());
    dh = scratch.take(state());
    dc = scratch.take(state());
    dx = scratch.take(steps_ * batch_ * size_);
    dw_ih = scratch.take(rows_ * size_);
    dw_hh = scratch.take(rows_ * units_);
    db_ih = scratch.take(rows_);
    db_hh = scratch.take(rows_);
    dxi_ = scratch.take(rows_);
    dhi_ = scratch.take(rows_);
  }

  std::int64_t state() const { return batch_ * units_; }
  std::int64_t steps() const { return steps_; }

  // h and c hold the states before step 0, then after every step.
  void forward() {
    for (std::int64_t t = 0; t < steps_; ++t) {
      for (std::int64_t b = 0; b < batch_; ++b) step(t, b);
    }
  }

  // dh and dc come as the gradients of the last states and leave as those of the first.
  void backward() {
    clear(dx, steps_ * batch_ * size_);
    clear(dw_ih, rows_ * size_);
    clear(dw_hh, rows_ * units_);
    clear(db_ih, rows_);
    clear(db_hh, rows_);
    for (std::int64_t t = steps_ - 1; t >= 0; --t) {
      for (std::int64_t b = 0; b < batch_; ++b) step_back(t, b);
    }
  }

  N *x, *h, *c, *w_ih, *w_hh, *b_ih, *b_hh;
  N *gates_x, *gates_h;  // of every step and sample, where there is a backward pass
  N *dy = nullptr, *dh = nullptr, *dc = nullptr;
  N *dx = nullptr, *dw_ih = nullptr, *dw_hh = nullptr, *db_ih = nullptr, *db_hh = nullptr;

 private:
  N* gates(N* array, std::int64_t t, std::int64_t b) const {
    return keeps_gates_ ? array + (t * batch_ + b) * rows_ : array;
  }

  void step(std::int64_t t, std::int64_t b) {
    const N *in = x + (t * batch_ + b) * size_, *old_h = h + t * state() + b * units_;
    N *xi = gates(gates_x, t, b), *hi = gates(gates_h, t, b);
    for (std::int64_t g = 0; g < rows_; ++g) {
      N from_x = b_ih[g], from_h = b_hh[g];
      for (std::int64_t i = 0; i < size_; ++i) from_x += w_ih[g * size_ + i] * in[i];
      for (std::int64_t k = 0; k < units_; ++k) from_h += w_hh[g * units_ + k] * old_h[k];
      xi[g] = from_x;
      hi[g] = from_h;
    }
    for (std::int64_t j = 0; j < units_; ++j) {
      const std::int64_t at = t * state() + b * units_ + j;
      const CellState<N> next = Cell::template step<N>(xi + j, hi + j, units_, {h[at], c[at]});
      h[at + state()] = next.h;
      c[at + state()] = next.c;
    }
  }

  void step_back(std::int64_t t, std::int64_t b) {
    N *dh_b = dh + b * units_, *dc_b = dc + b * units_;
    const N *xi = gates(gates_x, t, b), *hi = gates(gates_h, t, b);
    for (std::int64_t j = 0; j < units_; ++j) {
      const std::int64_t at = t * state() + b * units_ + j;
      const CellState<N> d = Cell::template back<N>(xi + j, hi + j, units_, {h[at], c[at]},
                                                    {dh_b[j] + dy[at], dc_b[j]}, dxi_ + j, dhi_ + j);
      dh_b[j] = d.h;
      dc_b[j] = d.c;
    }
    const std::int64_t at = t * batch_ + b;
    spread(dxi_, w_ih, x + at * size_, size_, dx + at * size_, dw_ih, db_ih);
    spread(dhi_, w_hh, h + t * state() + b * units_, units_, dh_b, dw_hh, db_hh);
  }

  // Through gates = w in + bias: adds to the gradients of in, w and bias.
  void spread(const N* d, const N* w, const N* in, std::int64_t n, N* din, N* dw, N* dbias) {
    for (std::int64_t g = 0; g < rows_; ++g) {
      dbias[g] += d[g];
      for (std::int64_t i = 0; i < n; ++i) {
        din[i] += w[g * n + i] * d[g];
        dw[g * n + i] += d[g] * in[i];
      }
    }
  }

  std::int64_t steps_, batch_, size_, units_, rows_;
  bool keeps_gates_ = false;
  N *dxi_ = nullptr, *dhi_ = nullptr;
};

template <typename T, Pass kPass>
using Number = std::conditional_t<kPass == Pass::kGradGrad, Dual<Acc<T>>, Acc<T>>;

template <typename Cell, Pass kPass>
std::size_t recurrent_workspace(TypeSpan in, const Attrs&) {
  std::size_t bytes = 0;
  dispatch_float(in[0].dtype, [&]<typename T>() {
    using N = Number<T, kPass>;
    Scratch<N> scratch;
    Recurrence<Cell, N>(in[0], in[1], scratch, kPass != Pass::kForward);
    bytes = scratch.bytes();
  });
  return bytes;
}

// Where the forward op's inputs, its outputs and the gradients lie.
template <typename Cell, typename N>
std::vector<N*> arrays_of_inputs(const Recurrence<Cell, N>& r) {
  if (Cell::kHasCell) return {r.x, r.h, r.c, r.w_ih, r.w_hh, r.b_ih, r.b_hh};
  return {r.x, r.h, r.w_ih, r.w_hh, r.b_ih, r.b_hh};
}
template <typename Cell, typename N>
std::vector<N*> arrays_of_gradients(const Recurrence<Cell, N>& r) {
  if (Cell::kHasCell) return {r.dx, r.dh, r.dc, r.dw_ih, r.dw_hh, r.db_ih, r.db_hh};
  return {r.dx, r.dh, r.dw_ih, r.dw_hh, r.db_ih, r.db_hh};
}
template <typename Cell, typename N>
std::vector<N*> arrays_of_outputs(const Recurrence<Cell, N>& r) {
  const std::int64_t last = r.steps() * r.state();
  if (Cell::kHasCell) return {r.h + r.state(), r.h + last, r.c + last};
  return {r.h + r.state(), r.h + last};
}

template <typename Cell, Pass kPass>
void run_recurrent(KernelArgs& a) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using N = Number<T, kPass>;
    Scratch<N> scratch(a.workspace);
    Recurrence<Cell, N> r(a.in(0).type(), a.in(1).type(), scratch, kPass != Pass::kForward);
    const auto inputs = arrays_of_inputs(r), outputs = arrays_of_outputs(r);
    clear(r.c, r.state());
    int i = 0;
    for (N* array : inputs) load<T>(a.in(i++), array);
    if constexpr (kPass != Pass::kForward) {
      clear(r.dc, r.state());
      load<T>(a.in(i++), r.dy);
      load<T>(a.in(i++), r.dh);
      if (Cell::kHasCell) load<T>(a.in(i++), r.dc);
    }
    if constexpr (kPass == Pass::kGradGrad) {
      for (N* array : inputs) load_tangent<T>(a.in(i++), array);
    }
    r.forward();
    if constexpr (kPass != Pass::kForward) r.backward();
    std::vector<N*> results = kPass == Pass::kForward ? outputs : arrays_of_gradients(r);
    if (kPass == Pass::kGradGrad) results.insert(results.end(), outputs.begin(), outputs.end());
    for (std::size_t k = 0; k < results.size(); ++k) {
      const Tensor& out = a.outputs[k];
      store(results[k], out.data<T>(), out.shape().num_elems());
    }
  });
}

// The functions of an OpDef whose cell does not depend on attributes.
template <typename Cell, Pass kPass>
Types infer_cell(TypeSpan in, const Attrs&) {
  return infer_recurrent(kind_of<Cell>(), kPass, in);
}
template <typename Cell, Pass kPass>
cost::OpCost cell_cost(TypeSpan in, TypeSpan out, const Attrs&) {
  return recurrent_cost(kind_of<Cell>(), kPass, in, out);
}
template <typename Cell, Pass kPass>
std::vector<LayoutOption> cell_layout(TypeSpan, const Attrs&) {
  return recurrent_layout(kind_of<Cell>(), kPass);
}

}  // namespace trireme::op::detail
