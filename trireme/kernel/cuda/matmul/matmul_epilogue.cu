// + bias per channel, then perhaps relu, in place.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
typedef u32 I;
constexpr bool kRelu = true;

#pragma text kBiasReluText
// Rounds after the product and after the bias, as two ops would. I: what indices fit into, divisions by 64
// bits are slow.
extern "C" __global__ void bias_relu(T* y, const T* bias, i64 n, I channels, I inner) {
  for (i64 i = first_index(); i < n; i += grid_step()) {
    const I c = inner == 1 ? (I)i % channels : (I)i / inner % channels;
    const acc_t<T> v = load_acc(y[i]) + load_acc(bias[c]);
    y[i] = store_acc<T>(kRelu && v < 0 ? (acc_t<T>)0 : v);
  }
}
// Rows of channels, kWide at a time; y and bias are aligned to 16 bytes.
constexpr int kWide = 16 / sizeof(T);
struct alignas(16) Wide {
  T v[kWide];
};
extern "C" __global__ void bias_relu_rows(Wide* y, const Wide* bias, i64 n, I across) {
  for (i64 i = first_index(); i < n; i += grid_step()) {
    Wide p = y[i];
    const Wide b = bias[(I)i % across];
#pragma unroll
    for (int k = 0; k < kWide; ++k) {
      const acc_t<T> v = load_acc(p.v[k]) + load_acc(b.v[k]);
      p.v[k] = store_acc<T>(kRelu && v < 0 ? (acc_t<T>)0 : v);
    }
    y[i] = p;
  }
}
