// What elementwise ops share: loops over strided, broadcast inputs, inference, layouts.
#pragma once

#include "trireme/op/detail/dispatch.h"
#include "trireme/op/detail/infer.h"
#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

// y[i] = f(x[i]) for elements of type X and Y; y is contiguous and may be x.
template <typename X, typename Y, typename F>
void map(const Tensor& x, const Tensor& y, F f) {
  const X* xs = x.data<X>();
  Y* ys = y.data<Y>();
  walk_rows<2>(y.shape(), {broadcast_strides(x, y.shape()), y.strides()},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 const X* p = xs + offset[0];
                 Y* q = ys + offset[1];
                 if (stride[0] == 1) {
                   for (std::int64_t i = 0; i < n; ++i) q[i] = f(p[i]);
                 } else {
                   for (std::int64_t i = 0; i < n; ++i) q[i * stride[1]] = f(p[i * stride[0]]);
                 }
               });
}

// y[i] = f(a[i], b[i]) with NumPy broadcasting; y may be a when their types are equal.
template <typename T, typename F>
void zip(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  const T* as = a.data<T>();
  const T* bs = b.data<T>();
  T* ys = y.data<T>();
  walk_rows<3>(y.shape(), {broadcast_strides(a, y.shape()), broadcast_strides(b, y.shape()), y.strides()},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 const T* p = as + offset[0];
                 const T* q = bs + offset[1];
                 T* r = ys + offset[2];
                 if (stride[0] == 1 && stride[1] == 1) {
                   for (std::int64_t i = 0; i < n; ++i) r[i] = f(p[i], q[i]);
                 } else {
                   for (std::int64_t i = 0; i < n; ++i)
                     r[i * stride[2]] = f(p[i * stride[0]], q[i * stride[1]]);
                 }
               });
}

template <typename F>
void map_float(const Tensor& x, const Tensor& y, F f) {
  dispatch_float(x.dtype(),
                 [&]<typename T>() { map<T, T>(x, y, [&](Acc<T> v) { return static_cast<T>(f(v)); }); });
}
template <typename F>
void map_numeric(const Tensor& x, const Tensor& y, F f) {
  dispatch_numeric(x.dtype(),
                   [&]<typename T>() { map<T, T>(x, y, [&](Acc<T> v) { return static_cast<T>(f(v)); }); });
}
template <typename F>
void zip_float(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  dispatch_float(a.dtype(), [&]<typename T>() {
    zip<T>(a, b, y, [&](Acc<T> v, Acc<T> w) { return static_cast<T>(f(v, w)); });
  });
}
template <typename F>
void zip_numeric(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  dispatch_numeric(a.dtype(), [&]<typename T>() {
    zip<T>(a, b, y, [&](Acc<T> v, Acc<T> w) { return static_cast<T>(f(v, w)); });
  });
}

// The type in which a sum, difference or product is formed: integers wrap around instead of overflowing.
template <typename T>
auto wrapping(T v) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(v);
  } else {
    return v;
  }
}

Types infer_unary_float(TypeSpan in, const Attrs& attrs);
Types infer_unary_numeric(TypeSpan in, const Attrs& attrs);
Types infer_binary_float(TypeSpan in, const Attrs& attrs);  // inputs a, b: one dtype, shapes broadcast
Types infer_binary_numeric(TypeSpan in, const Attrs& attrs);

// Every dimension of the result may be cut; inputs that are broadcast along it are replicated.
std::vector<LayoutOption> elementwise_layout(TypeSpan in, const Attrs& attrs);

}  // namespace trireme::op::detail
