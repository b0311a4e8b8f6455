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
template <typename T, typename Y = T, typename F>
void zip(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  const T* as = a.data<T>();
  const T* bs = b.data<T>();
  Y* ys = y.data<Y>();
  walk_rows<3>(y.shape(), {broadcast_strides(a, y.shape()), broadcast_strides(b, y.shape()), y.strides()},
               [&](const auto& offset, const auto& stride, std::int64_t n) {
                 const T* p = as + offset[0];
                 const T* q = bs + offset[1];
                 Y* r = ys + offset[2];
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

// y[i] = f(a[i], b[i]) as bool.
template <typename F>
void compare_numeric(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  dispatch_numeric(a.dtype(),
                   [&]<typename T>() { zip<T, bool>(a, b, y, [&](Acc<T> v, Acc<T> w) { return f(v, w); }); });
}
template <typename F>
void compare_any(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  if (a.dtype() != DType::kBool) return compare_numeric(a, b, y, f);
  zip<bool>(a, b, y, f);
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
Types infer_unary_bool(TypeSpan in, const Attrs& attrs);
Types infer_binary_bool(TypeSpan in, const Attrs& attrs);
Types infer_compare_numeric(TypeSpan in, const Attrs& attrs);  // like binary ones, but the result is bool
Types infer_compare_any(TypeSpan in, const Attrs& attrs);

// Every dimension of the result may be cut; inputs that are broadcast along it are replicated.
std::vector<LayoutOption> elementwise_layout(TypeSpan in, const Attrs& attrs);

// ---- Gradients

// Flat almost everywhere: no gradient for any of the inputs.
template <std::size_t kInputs>
Result<Grads> flat(GradBuilder&) {
  return Grads(kInputs);
}
// A scalar of v's dtype.
Value scalar_like(GradBuilder& g, Value v, double value);
Value quotient(GradBuilder& g, Value a, Value b);
// v where `cond` holds, else 0.
Value where(GradBuilder& g, Value cond, Value v);
// The gradient of maximum and minimum: dy goes to the operand that was taken, half to each in a tie
// (PyTorch's rule).
// `loses_a` compares a with b and holds where b was taken, `loses_b` where a was.
Result<Grads> extremum_grad(GradBuilder& g, const OpDef& loses_a, const OpDef& loses_b);

}  // namespace trireme::op::detail
