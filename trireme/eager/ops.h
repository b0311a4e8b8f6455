// Ops on Arrays that read like the maths. Each is Context::apply of the op of that name; every other op goes
// through apply itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/eager/array.h"
#include "trireme/op/op.h"

namespace trireme::eager {

// Output 0, or all outputs, of any op. The Context is that of the first input: at least one input is needed.
Array apply(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs = {});
std::vector<Array> apply_all(const op::OpDef& def, std::span<const Array> inputs, op::Attrs attrs = {});

// Elementwise, with NumPy broadcasting.
Array operator+(const Array& a, const Array& b);
Array operator-(const Array& a, const Array& b);
Array operator*(const Array& a, const Array& b);
Array operator/(const Array& a, const Array& b);
Array operator-(const Array& a);
Array operator+(const Array& a, double b);
Array operator+(double a, const Array& b);
Array operator-(const Array& a, double b);
Array operator-(double a, const Array& b);
Array operator*(const Array& a, double b);
Array operator*(double a, const Array& b);
Array operator/(const Array& a, double b);
Array operator/(double a, const Array& b);
Array exp(const Array& x);
Array log(const Array& x);
Array sqrt(const Array& x);
Array square(const Array& x);
Array relu(const Array& x);
Array sigmoid(const Array& x);
Array tanh(const Array& x);
Array cast(const Array& x, DType dtype);

// Over `axes`; none given: over all.
Array sum(const Array& x, std::vector<std::int64_t> axes = {}, bool keep_dims = false);
Array mean(const Array& x, std::vector<std::int64_t> axes = {}, bool keep_dims = false);
Array max(const Array& x, std::vector<std::int64_t> axes = {}, bool keep_dims = false);

Array reshape(const Array& x, const Shape& shape);
Array transpose(const Array& x, std::vector<std::int64_t> order);
Array matmul(const Array& a, const Array& b, bool transpose_a = false, bool transpose_b = false);
Array bias_add(const Array& x, const Array& bias);  // along dimension 1
Array conv2d(const Array& x, const Array& filter, std::int64_t stride = 1, std::int64_t padding = 0);
Array max_pool2d(const Array& x, std::int64_t window, std::int64_t stride);
Array softmax(const Array& x);
Array softmax_cross_entropy(const Array& logits, const Array& labels, const Array& weights);

// In place, of a parameter; the parameter is returned. Never recorded.
Array assign(const Array& parameter, const Array& value);
Array assign_add(const Array& parameter, const Array& value);
Array apply_sgd(const Array& parameter, const Array& grad, double lr);
Array apply_momentum(const Array& parameter, const Array& velocity, const Array& grad, double lr,
                     double momentum = 0.9);

}  // namespace trireme::eager
