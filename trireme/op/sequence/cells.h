// Cells of recurrent networks: one unit of one sample at one step, forward and backward, on plain or dual
// numbers.
//
// xi[g] and hi[g] are gate g's W_ih x + b_ih and W_hh h + b_hh; gates lie `stride` apart. back() makes the
// gates again, writes the gradients of xi and hi, and yields those of h and c that do not pass through hi.
// Formulas and gate orders are PyTorch's:
//   rnn   h' = tanh(xi + hi), or relu
//   lstm  i, f, g, o (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000):
//         c' = sigma(f) c + sigma(i) tanh(g);  h' = sigma(o) tanh(c')
//   gru   r, z, n (Cho et al., 2014, with the reset after the product, as in cuDNN):
//         n' = tanh(xi_n + sigma(r) hi_n);  h' = (1 - sigma(z)) n' + sigma(z) h
#pragma once

#include "trireme/op/sequence/dual.h"

namespace trireme::op::detail {

template <typename N>
struct CellState {
  N h, c;
};

template <bool kRelu>
struct RnnCell {
  static constexpr int kGates = 1;
  static constexpr bool kHasCell = false;
  static Tally step_tally() { return kRelu ? Tally{.add = 1, .compare = 1} : Tally{.add = 1, .tanh = 1}; }
  static Tally back_tally() { return kRelu ? step_tally() : step_tally() + Tally{.add = 1, .mul = 2}; }

  template <typename N>
  static CellState<N> step(const N* xi, const N* hi, std::int64_t, CellState<N>) {
    const N v = xi[0] + hi[0];
    if constexpr (kRelu) {
      return {v > N(0) ? v : N(0), N(0)};
    } else {
      return {math::tanh(v), N(0)};
    }
  }
  template <typename N>
  static CellState<N> back(const N* xi, const N* hi, std::int64_t, CellState<N>, CellState<N> d, N* dxi,
                           N* dhi) {
    const N v = xi[0] + hi[0];
    if constexpr (kRelu) {
      dxi[0] = v > N(0) ? d.h : N(0);
    } else {
      const N y = math::tanh(v);
      dxi[0] = d.h * (N(1) - y * y);
    }
    dhi[0] = dxi[0];
    return {N(0), N(0)};
  }
};

struct LstmCell {
  static constexpr int kGates = 4;
  static constexpr bool kHasCell = true;
  static Tally gates_tally() { return Tally{.add = 4, .tanh = 1} + 3 * kSigmoidTally; }
  static Tally step_tally() { return gates_tally() + Tally{.add = 1, .mul = 3, .tanh = 1}; }
  static Tally back_tally() { return gates_tally() + Tally{.add = 7, .mul = 18, .tanh = 1}; }

  template <typename N>
  struct Gates {
    N i, f, g, o;
    Gates(const N* xi, const N* hi, std::int64_t stride)
        : i(sigmoid(xi[0] + hi[0])),
          f(sigmoid(xi[stride] + hi[stride])),
          g(math::tanh(xi[2 * stride] + hi[2 * stride])),
          o(sigmoid(xi[3 * stride] + hi[3 * stride])) {}
  };

  template <typename N>
  static CellState<N> step(const N* xi, const N* hi, std::int64_t stride, CellState<N> s) {
    const Gates<N> gate(xi, hi, stride);
    const N c = gate.f * s.c + gate.i * gate.g;
    return {gate.o * math::tanh(c), c};
  }
  template <typename N>
  static CellState<N> back(const N* xi, const N* hi, std::int64_t stride, CellState<N> s, CellState<N> d,
                           N* dxi, N* dhi) {
    const Gates<N> gate(xi, hi, stride);
    const N squashed = math::tanh(gate.f * s.c + gate.i * gate.g);
    const N dc = d.c + d.h * gate.o * (N(1) - squashed * squashed);
    dxi[0] = dc * gate.g * gate.i * (N(1) - gate.i);
    dxi[stride] = dc * s.c * gate.f * (N(1) - gate.f);
    dxi[2 * stride] = dc * gate.i * (N(1) - gate.g * gate.g);
    dxi[3 * stride] = d.h * squashed * gate.o * (N(1) - gate.o);
    for (int g = 0; g < kGates; ++g) dhi[g * stride] = dxi[g * stride];
    return {N(0), dc * gate.f};
  }
};

struct GruCell {
  static constexpr int kGates = 3;
  static constexpr bool kHasCell = false;
  static Tally gates_tally() { return Tally{.add = 3, .mul = 1, .tanh = 1} + 2 * kSigmoidTally; }
  static Tally step_tally() { return gates_tally() + Tally{.add = 2, .mul = 2}; }
  static Tally back_tally() { return gates_tally() + Tally{.add = 5, .mul = 11}; }

  template <typename N>
  struct Gates {
    N r, z, n;
    Gates(const N* xi, const N* hi, std::int64_t stride)
        : r(sigmoid(xi[0] + hi[0])),
          z(sigmoid(xi[stride] + hi[stride])),
          n(math::tanh(xi[2 * stride] + r * hi[2 * stride])) {}
  };

  template <typename N>
  static CellState<N> step(const N* xi, const N* hi, std::int64_t stride, CellState<N> s) {
    const Gates<N> gate(xi, hi, stride);
    return {(N(1) - gate.z) * gate.n + gate.z * s.h, N(0)};
  }
  template <typename N>
  static CellState<N> back(const N* xi, const N* hi, std::int64_t stride, CellState<N> s, CellState<N> d,
                           N* dxi, N* dhi) {
    const Gates<N> gate(xi, hi, stride);
    const N dn = d.h * (N(1) - gate.z) * (N(1) - gate.n * gate.n);
    dxi[0] = dn * hi[2 * stride] * gate.r * (N(1) - gate.r);
    dxi[stride] = d.h * (s.h - gate.n) * gate.z * (N(1) - gate.z);
    dxi[2 * stride] = dn;
    dhi[0] = dxi[0];
    dhi[stride] = dxi[stride];
    dhi[2 * stride] = dn * gate.r;
    return {d.h * gate.z, N(0)};
  }
};

}  // namespace trireme::op::detail
