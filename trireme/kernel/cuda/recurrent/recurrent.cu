// Cells of recurrent layers. Formulas and gate orders: op/sequence/cells.h.
// T is the element type, A what is computed in. Gates of a step are [batch, gates * units] without biases: xi
// by x and hi by h for gru; for the others xi holds their sum and hi is not read.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
constexpr int kGates = 4;
enum { kTanh, kRelu, kLstm, kGru };
constexpr int kCell = kLstm;

#pragma text kCellText
typedef acc_t<T> A;

__device__ A sigmoid(A v) { return A(1) / (A(1) + exp(-v)); }

// Gates of one unit of one sample, biases added; those that a cell does not have are never read.
struct Gates {
  A x[4], h[4];
  __device__ Gates(const A* xi, const A* hi, const T* b_ih, const T* b_hh, i64 sample, i64 unit, i64 units) {
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      const i64 row = g * units + unit, at = sample * kGates * units + row;
      x[g] = xi[at] + (A)load_acc(b_ih[row]);
      h[g] = (kCell == kGru ? hi[at] : A(0)) + (A)load_acc(b_hh[row]);
    }
  }
  __device__ A sum(int g) const { return x[g] + h[g]; }
};

#pragma text kCellStepText
// Null where a result is not wanted or is there already; c and next_c may be the same.
extern "C" __global__ void cell_step(const A* xi, const A* hi, const T* b_ih, const T* b_hh, const A* h,
                                     const A* c, A* next_h, A* next_c, T* y, T* last_h, T* last_c, i64 batch,
                                     i64 units) {
  for (i64 at = first_index(); at < batch * units; at += grid_step()) {
    const Gates gate(xi, hi, b_ih, b_hh, at / units, at % units, units);
    A new_h = 0, new_c = 0;
    if (kCell == kTanh) new_h = tanh(gate.sum(0));
    if (kCell == kRelu) new_h = gate.sum(0) > 0 ? gate.sum(0) : A(0);
    if (kCell == kLstm) {
      const A i = sigmoid(gate.sum(0)), f = sigmoid(gate.sum(1)), g = tanh(gate.sum(2)),
              o = sigmoid(gate.sum(3));
      new_c = f * c[at] + i * g;
      new_h = o * tanh(new_c);
      next_c[at] = new_c;
    }
    if (kCell == kGru) {
      const A r = sigmoid(gate.sum(0)), z = sigmoid(gate.sum(1)), n = tanh(gate.x[2] + r * gate.h[2]);
      new_h = (A(1) - z) * n + z * h[at];
    }
    next_h[at] = new_h;
    if (y) y[at] = store_acc<T>(new_h);
    if (last_h) last_h[at] = store_acc<T>(new_h);
    if (last_c) last_c[at] = store_acc<T>(new_c);
  }
}

#pragma text kCellBackText
// dh and dc come as gradients of the states after the step and leave as those before it, without what passes
// through hi; dxi and dhi are the gradients of xi and hi and may lie in their place.
extern "C" __global__ void cell_back(const A* xi, const A* hi, const T* b_ih, const T* b_hh, const A* h,
                                     const A* c, const T* dy, A* dh, A* dc, A* dxi, A* dhi, i64 batch,
                                     i64 units) {
  for (i64 at = first_index(); at < batch * units; at += grid_step()) {
    const Gates gate(xi, hi, b_ih, b_hh, at / units, at % units, units);
    const A d = dh[at] + (A)load_acc(dy[at]);
    A old_h = 0, dx[4], through = 0;  // through: factor of hi in its gate where it is not 1
    if (kCell == kTanh) {
      const A y = tanh(gate.sum(0));
      dx[0] = d * (A(1) - y * y);
    }
    if (kCell == kRelu) dx[0] = gate.sum(0) > 0 ? d : A(0);
    if (kCell == kLstm) {
      const A i = sigmoid(gate.sum(0)), f = sigmoid(gate.sum(1)), g = tanh(gate.sum(2)),
              o = sigmoid(gate.sum(3));
      const A squashed = tanh(f * c[at] + i * g), d_c = dc[at] + d * o * (A(1) - squashed * squashed);
      dx[0] = d_c * g * i * (A(1) - i);
      dx[1] = d_c * c[at] * f * (A(1) - f);
      dx[2] = d_c * i * (A(1) - g * g);
      dx[3] = d * squashed * o * (A(1) - o);
      dc[at] = d_c * f;
    }
    if (kCell == kGru) {
      const A r = sigmoid(gate.sum(0)), z = sigmoid(gate.sum(1)), n = tanh(gate.x[2] + r * gate.h[2]);
      const A dn = d * (A(1) - z) * (A(1) - n * n);
      dx[0] = dn * gate.h[2] * r * (A(1) - r);
      dx[1] = d * (h[at] - n) * z * (A(1) - z);
      dx[2] = dn;
      through = r;
      old_h = d * z;
    }
    dh[at] = old_h;
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      const i64 to = at / units * kGates * units + g * units + at % units;
      dxi[to] = dx[g];
      if (kCell == kGru) dhi[to] = g == 2 ? dx[g] * through : dx[g];
    }
  }
}

#pragma text kSumRowsText
// 32 x 32 threads for 32 columns.
// Rows are added by 32 threads with a fixed share each, then the shares in order: same bits always.
extern "C" __global__ void sum_rows(const A* from, T* to, i64 rows, i64 columns) {
  __shared__ A shares[32][33];
  const i64 column = (i64)blockIdx.x * 32 + threadIdx.x;
  A total = 0;
  if (column < columns)
    for (i64 r = threadIdx.y; r < rows; r += 32) total += from[r * columns + column];
  shares[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int s = 1; s < 32; ++s) total += shares[s][threadIdx.x];
  to[column] = store_acc<T>(total);
}

#pragma text kConvertText
extern "C" __global__ void widen(const T* from, A* to, i64 n) {
  for (i64 i = first_index(); i < n; i += grid_step()) to[i] = load_acc(from[i]);
}
extern "C" __global__ void narrow(const A* from, T* to, i64 n) {
  for (i64 i = first_index(); i < n; i += grid_step()) to[i] = store_acc<T>(from[i]);
}
