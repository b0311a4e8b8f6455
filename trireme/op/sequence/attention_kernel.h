// One head of attention and of its gradient, on arrays of plain or dual numbers.
#pragma once

#include <limits>

#include "trireme/op/sequence/attention.h"
#include "trireme/op/sequence/scratch.h"

namespace trireme::op::detail {

template <typename N>
N dot(const N* a, const N* b, std::int64_t n) {
  N total(0);
  for (std::int64_t i = 0; i < n; ++i) total += a[i] * b[i];
  return total;
}

// p = softmax of the scores of one query against n keys.
template <typename N>
void attention_row(const AttentionSizes& s, const N* query, const N* k, std::int64_t n, N* p) {
  using A = Plain<N>;
  A top = -std::numeric_limits<A>::infinity();
  for (std::int64_t j = 0; j < n; ++j) {
    p[j] = N(static_cast<A>(s.scale)) * dot(query, k + j * s.depth, s.depth);
    if (value_of(p[j]) > top) top = value_of(p[j]);
  }
  N total(0);
  for (std::int64_t j = 0; j < n; ++j) total += p[j] = math::exp(p[j] - N(top));
  for (std::int64_t j = 0; j < n; ++j) p[j] = p[j] / total;
}

// y = p v for one query.
template <typename N>
void attention_value(const AttentionSizes& s, const N* p, const N* v, std::int64_t n, N* y) {
  clear(y, s.width);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t d = 0; d < s.width; ++d) y[d] += p[j] * v[j * s.width + d];
  }
}

// The arrays of one head. y is made by the forward kernel and, for its tangents, with dual numbers.
template <typename N>
struct AttentionHead {
  N *q, *k, *v, *y, *p;
  N *dy = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr, *dp = nullptr;

  AttentionHead(const AttentionSizes& s, Scratch<N>& scratch, bool backward) {
    q = scratch.take(s.queries * s.depth);
    k = scratch.take(s.keys * s.depth);
    v = scratch.take(s.keys * s.width);
    y = scratch.take(s.queries * s.width);
    p = scratch.take(s.keys);
    if (!backward) return;
    dy = scratch.take(s.queries * s.width);
    dq = scratch.take(s.queries * s.depth);
    dk = scratch.take(s.keys * s.depth);
    dv = scratch.take(s.keys * s.width);
    dp = scratch.take(s.keys);
  }

  void forward(const AttentionSizes& s) {
    for (std::int64_t i = 0; i < s.queries; ++i) {
      const std::int64_t n = s.keys_of(i);
      attention_row(s, q + i * s.depth, k, n, p);
      attention_value(s, p, v, n, y + i * s.width);
    }
  }

  // dP = dY V^T;  dS = P (dP - sum of P dP by rows);  dQ = scale dS K;  dK = scale dS^T Q;  dV = P^T dY.
  void backward(const AttentionSizes& s) {
    clear(dq, s.queries * s.depth);
    clear(dk, s.keys * s.depth);
    clear(dv, s.keys * s.width);
    for (std::int64_t i = 0; i < s.queries; ++i) {
      const std::int64_t n = s.keys_of(i);
      attention_row(s, q + i * s.depth, k, n, p);
      if constexpr (kIsDual<N>) attention_value(s, p, v, n, y + i * s.width);
      const N* dyi = dy + i * s.width;
      N sum(0);
      for (std::int64_t j = 0; j < n; ++j) {
        dp[j] = dot(dyi, v + j * s.width, s.width);
        sum += p[j] * dp[j];
      }
      for (std::int64_t j = 0; j < n; ++j) {
        const N ds = p[j] * (dp[j] - sum) * N(static_cast<Plain<N>>(s.scale));
        for (std::int64_t d = 0; d < s.depth; ++d) {
          dq[i * s.depth + d] += ds * k[j * s.depth + d];
          dk[j * s.depth + d] += ds * q[i * s.depth + d];
        }
        for (std::int64_t d = 0; d < s.width; ++d) dv[j * s.width + d] += p[j] * dyi[d];
      }
    }
  }
};

// f(b, h) for every head.
template <typename F>
void for_each_head(const AttentionSizes& s, F f) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) f(b, h);
  }
}
inline Tensor head_of(const Tensor& t, std::int64_t b, std::int64_t h) {
  return t.slice(0, b, b + 1).slice(1, h, h + 1);
}
template <typename T>
T* head_out(const Tensor& t, std::int64_t b, std::int64_t h) {
  return t.data<T>() + (b * t.shape()[1] + h) * t.shape()[2] * t.shape()[3];
}

// The reference kernels on q, k, v and, for the gradients, dy.
inline void run_attention(const KernelArgs& a, const AttentionSizes& s) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using N = Acc<T>;
    Scratch<N> scratch(a.workspace);
    AttentionHead<N> head(s, scratch, false);
    for_each_head(s, [&](std::int64_t b, std::int64_t h) {
      load<T>(head_of(a.in(0), b, h), head.q);
      load<T>(head_of(a.in(1), b, h), head.k);
      load<T>(head_of(a.in(2), b, h), head.v);
      head.forward(s);
      store(head.y, head_out<T>(a.out(0), b, h), s.queries * s.width);
    });
  });
}
inline void run_attention_grad(const KernelArgs& a, const AttentionSizes& s) {
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using N = Acc<T>;
    Scratch<N> scratch(a.workspace);
    AttentionHead<N> head(s, scratch, true);
    for_each_head(s, [&](std::int64_t b, std::int64_t h) {
      load<T>(head_of(a.in(0), b, h), head.q);
      load<T>(head_of(a.in(1), b, h), head.k);
      load<T>(head_of(a.in(2), b, h), head.v);
      load<T>(head_of(a.in(3), b, h), head.dy);
      head.backward(s);
      store(head.dq, head_out<T>(a.out(0), b, h), s.queries * s.depth);
      store(head.dk, head_out<T>(a.out(1), b, h), s.keys * s.depth);
      store(head.dv, head_out<T>(a.out(2), b, h), s.keys * s.width);
    });
  });
}
// The sizes of a part of the queries; the i64 scalar `begin` is input `index`.
inline AttentionSizes part_sizes_of(const KernelArgs& a, int index) {
  AttentionSizes s(a.in(0).type(), a.in(1).type(), a.in(2).type(), a.attrs);
  s.first = std::clamp<std::int64_t>(a.in(index).data<std::int64_t>()[0], -s.queries, s.keys);
  return s;
}

template <bool kDual, bool kBackward>
std::size_t attention_workspace(TypeSpan in, const Attrs& attrs) {
  const AttentionSizes s(in[0], in[1], in[2], attrs);
  std::size_t bytes = 0;
  dispatch_float(in[0].dtype, [&]<typename T>() {
    using N = std::conditional_t<kDual, Dual<Acc<T>>, Acc<T>>;
    Scratch<N> scratch;
    AttentionHead<N>(s, scratch, kBackward);
    bytes = scratch.bytes();
  });
  return bytes;
}

}  // namespace trireme::op::detail
