// Parts of vectors, for the loops that elementwise.cc writes.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef u32 index;
constexpr int V = 4;

#pragma text kAccessText
// `whole` is the same for a block: its loads then stand one after another, all in flight before the first
// use.
template <class T>
inline void load(Pack<T, V>& x, const T* p, index at, index i, index n) {
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (i + k < n) x.v[k] = p[at + k];
}
template <class T>
inline void store(T* p, const Pack<T, V>& y, index at, index i, index n) {
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (i + k < n) p[at + k] = y.v[k];
}
