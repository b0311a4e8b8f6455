#include "tests/conformance/op_cases.h"

#include <cctype>
#include <cmath>

#include "tests/conformance/cases/cases.h"
#include "trireme/base/hash.h"
#include "trireme/base/rng.h"
#include "trireme/tensor/half.h"

namespace trireme::op::testing {
namespace {
using enum Fill;

DType dtype_of(Fill fill, DType typed) {
  switch (fill) {
    case kInts:
    case kLabels:
    case kIds:
      return DType::kI64;
    case kInts32:
    case kLabels32:
      return DType::kI32;
    case kWeights:
      return DType::kF32;
    case kBytes:
      return DType::kU8;
    case kBools:
      return DType::kBool;
    default:
      return typed;
  }
}

// `row_gap`: index within the last two dimensions is on their diagonal.
double draw(Fill fill, std::int64_t i, bool on_diagonal, Philox& rng) {
  const float u = rng.next_uniform();
  switch (fill) {
    case kReal:
      return u < 0.5F ? -2.0F + 3.9F * u : 0.1F + 3.8F * (u - 0.5F);
    case kPositive:
      return 0.5F + 2 * u;
    case kUnit:
      return 0.1F + 0.8F * u;
    case kDistinct:
      return 0.05F * static_cast<float>((i * 37 + 5) % 101) - 2;  // 37 and 101 are coprime
    case kRegular:
      return (u - 0.5F) + (on_diagonal ? 2.0F : 0.0F);
    case kBools:
      return u < 0.5F ? 0 : 1;
    case kInts:
    case kInts32:
      return static_cast<double>(static_cast<int>(u * 11)) - 5;
    case kLabels:
    case kLabels32:
      return static_cast<int>(u * 4);
    case kWeights:
      return 0.5 * static_cast<double>(i % 4);
    case kIds:
      return static_cast<double>(1000 + 17 * i);
    case kBytes:
      return static_cast<int>(u * 256);
  }
  return 0;
}

// What a typed input holds under an integer dtype.
double as_integer(Fill fill, double real, std::int64_t i, DType dtype) {
  double v = std::trunc(real * 3);
  if (fill == kPositive || fill == kUnit) v = 1 + std::abs(v);
  if (fill == kDistinct) v = static_cast<double>((i * 37 + 5) % 101) - 50;
  if (dtype == DType::kU8) v = std::abs(v);
  return dtype == DType::kBool ? (i % 3 != 0 ? 1 : 0) : v;
}

template <typename T>
void store(const Tensor& t, std::int64_t i, double v) {
  t.data<T>()[i] = static_cast<T>(v);
}

void store_any(const Tensor& t, std::int64_t i, double v) {
  switch (t.dtype()) {
    case DType::kF32:
      return store<float>(t, i, v);
    case DType::kF64:
      return store<double>(t, i, v);
    case DType::kBF16:
      t.data<BFloat16>()[i] = static_cast<float>(v);
      return;
    case DType::kF16:
      t.data<Float16>()[i] = static_cast<float>(v);
      return;
    case DType::kI64:
      return store<std::int64_t>(t, i, v);
    case DType::kI32:
      return store<std::int32_t>(t, i, v);
    case DType::kU8:
      return store<std::uint8_t>(t, i, v);
    case DType::kBool:
      t.data<bool>()[i] = v != 0;
      return;
  }
}

double load_any(const Tensor& t, std::int64_t i) {
  switch (t.dtype()) {
    case DType::kF32:
      return t.data<float>()[i];
    case DType::kF64:
      return t.data<double>()[i];
    case DType::kBF16:
      return t.data<BFloat16>()[i];
    case DType::kF16:
      return t.data<Float16>()[i];
    case DType::kI64:
      return static_cast<double>(t.data<std::int64_t>()[i]);
    case DType::kI32:
      return t.data<std::int32_t>()[i];
    default:
      return std::to_integer<int>(t.raw()[i]);
  }
}

bool on_diagonal(const Shape& s, std::int64_t i) {
  if (s.rank() < 2) return false;
  const std::int64_t cols = s.dim(-1), rows = s.dim(-2);
  return i % cols == i / cols % rows;
}
}  // namespace

bool is_typed(Fill fill) { return dtype_of(fill, DType::kF64) == DType::kF64; }

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> t;
    for (auto* add : {add_elementwise, add_reduce, add_array, add_linalg, add_conv, add_nn, add_sequence,
                      add_random, add_update, add_fused, add_host}) {
      add(t);
    }
    return t;
  }();
  return cases;
}

std::string case_name(const OpCase& c) {
  std::string name = fmt::format("{}__{}", c.def->name, c.note);
  for (char& ch : name) {
    if (std::isalnum(static_cast<unsigned char>(ch)) == 0) ch = '_';
  }
  return name;
}

std::vector<Tensor> make_inputs(const OpCase& c, DType dtype) {
  std::vector<Tensor> inputs;
  for (const Input& spec : c.inputs) {
    Philox rng(hash_text(case_name(c)), inputs.size());
    const Tensor t = *Tensor::allocate(cpu_device(), {dtype_of(spec.fill, dtype), spec.shape});
    const bool integers = is_typed(spec.fill) && !is_floating(dtype);
    for (std::int64_t i = 0; i < spec.shape.num_elems(); ++i) {
      const double v = static_cast<float>(draw(spec.fill, i, on_diagonal(spec.shape, i), rng));
      store_any(t, i, integers ? as_integer(spec.fill, v, i, dtype) : v);
    }
    inputs.push_back(t);
  }
  return inputs;
}

Tensor strided_copy(const Tensor& t) {
  // Stored with dimensions reversed and one more of each size; the view takes the part from index 1 and turns
  // it back.
  const int rank = t.shape().rank();
  std::vector<std::int64_t> dims;
  std::vector<int> back;
  for (int d = rank - 1; d >= 0; --d) {
    dims.push_back(t.shape()[d] + 1);
    back.push_back(d);
  }
  Tensor view = *Tensor::allocate(cpu_device(), {t.dtype(), Shape(dims)});
  for (int d = 0; d < rank; ++d) view = view.slice(d, 1, view.shape()[d]);
  view = view.transpose(back);
  const std::size_t size = dtype_size(t.dtype());
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i) {
    std::int64_t rest = i, at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      at += rest % t.shape()[d] * view.strides()[static_cast<std::size_t>(d)];
      rest /= t.shape()[d];
    }
    std::copy_n(t.raw() + static_cast<std::size_t>(i) * size, size,
                view.raw() + static_cast<std::size_t>(at) * size);
  }
  return view;
}

std::vector<double> to_doubles(const Tensor& t) {
  const Tensor c = *Tensor::allocate(cpu_device(), t.type());
  copy_to_contiguous(t, c);
  std::vector<double> out;
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i) out.push_back(load_any(c, i));
  return out;
}

Tensor converted(const Tensor& t, DType dtype) {
  const Tensor to = *Tensor::allocate(cpu_device(), {dtype, t.shape()});
  const auto values = to_doubles(t);
  for (std::size_t i = 0; i < values.size(); ++i) store_any(to, static_cast<std::int64_t>(i), values[i]);
  return to;
}

Tensor random_real(const TensorType& type, std::uint64_t key) {
  Philox rng(key);
  const Tensor t = *Tensor::allocate(cpu_device(), type);
  for (std::int64_t i = 0; i < type.shape.num_elems(); ++i)
    store_any(t, i, static_cast<float>(draw(kReal, i, false, rng)));
  return t;
}

}  // namespace trireme::op::testing
