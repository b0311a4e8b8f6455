// assign and assign_add.
#pragma once

#include "trireme/kernel/cuda/norm/packs.cu"

constexpr bool kAdds = true;

#pragma text kAssignText
// Elements as bits for assign; sums of whole numbers wrap around.
__device__ __forceinline__ u64 wrap(i64 v) { return v; }
__device__ __forceinline__ u64 wrap(i32 v) { return (i64)v; }
__device__ __forceinline__ u64 wrap(u8 v) { return v; }
__device__ __forceinline__ float wrap(float v) { return v; }
__device__ __forceinline__ double wrap(double v) { return v; }
__device__ __forceinline__ T result(const T* var, T value) {
  if constexpr (kAdds)
    return store_acc<T>((A)(wrap(load_acc(*var)) + wrap(load_acc(value))));
  else
    return value;
}
extern "C" __global__ void assign(T* var, const T* value, i64 n) {
  const i64 packs = is_aligned(var) && is_aligned(value) ? n / kPack : 0;
  for (i64 k = first_index(); k < packs; k += grid_step()) {
    const Packed from = load_pack(value + k * kPack, true);
    Packed to;
    if (kAdds) to = load_pack(var + k * kPack, true);
#pragma unroll
    for (int v = 0; v < kPack; ++v) to.v[v] = result(to.v + v, from.v[v]);
    store_pack(var + k * kPack, to, true);
  }
  for (i64 i = packs * kPack + first_index(); i < n; i += grid_step()) var[i] = result(var + i, value[i]);
}
