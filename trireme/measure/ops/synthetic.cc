#include "trireme/measure/ops/synthetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trireme/model/parameter.h"
#include "trireme/parallel/mesh.h"
#include "trireme/parallel/shard/shard_graph.h"

namespace trireme::measure {
namespace {

// The same numbers every time (the generator of "Numerical Recipes").
class Numbers {
 public:
  std::uint32_t next() { return state_ = state_ * 1664525U + 1013904223U; }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 8) / (1 << 24);
  }

 private:
  std::uint32_t state_ = 1;
};

std::uint16_t half_of(float value) {  // in the normal range of f16, cut off
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  constexpr std::uint32_t kRebias = 112U << 23, kLeast = 113U << 23;
  if (magnitude < kLeast) return static_cast<std::uint16_t>(sign);
  return static_cast<std::uint16_t>(sign | (magnitude - kRebias) >> 13);
}

void put_float(const Tensor& t, std::int64_t i, double value) {
  const auto f = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof bits);
  switch (t.type().dtype) {
    case DType::kF64:
      t.data<double>()[i] = value;
      break;
    case DType::kBF16:
      std::memcpy(t.raw() + 2 * i, reinterpret_cast<const std::byte*>(&bits) + 2, 2);
      break;
    case DType::kF16: {
      const std::uint16_t half = half_of(f);
      std::memcpy(t.raw() + 2 * i, &half, 2);
      break;
    }
    default:
      t.data<float>()[i] = f;
  }
}

void fill_floats(const Tensor& t, double low, double high) {
  Numbers numbers;
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i) put_float(t, i, numbers.between(low, high));
}

// Below `classes`; a scalar counts something, from 1.
void fill_integers(const Tensor& t, int classes) {
  Numbers numbers;
  const bool scalar = t.shape().rank() == 0;
  for (std::int64_t i = 0; i < t.shape().num_elems(); ++i) {
    const std::uint32_t value = scalar ? 1 : (numbers.next() >> 8) % static_cast<std::uint32_t>(classes);
    switch (t.type().dtype) {
      case DType::kI64:
        t.data<std::int64_t>()[i] = value;
        break;
      case DType::kI32:
        t.data<std::int32_t>()[i] = static_cast<std::int32_t>(value);
        break;
      default:
        t.raw()[i] = static_cast<std::byte>(t.type().dtype == DType::kBool ? 1 : value);
    }
  }
}

bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16 || dtype == DType::kF16;
}

const model::Parameter* find_parameter(const std::string& name, const prepare::Prepared& prepared) {
  for (const auto* list : {&prepared.parameters, &prepared.frozen})
    for (const model::Parameter& p : *list)
      if (p.name == name) return &p;
  return nullptr;
}

}  // namespace

Result<Tensor> synthetic_input(const std::string& name, const TensorType& type,
                               const prepare::Prepared& prepared) {
  constexpr double kGradient = 1e-3, kRate = 1e-6;
  TR_ASSIGN_OR_RETURN(Tensor t, Tensor::allocate(cpu_device(), type));
  const bool is_position = name == parallel::position_input({parallel::kModelAxis, 1});
  if (!is_float(type.dtype)) {
    fill_integers(t, std::max(1, prepared.input.num_classes));
    if (is_position) t.data<std::int64_t>()[0] = prepared.tile;
  } else if (type.shape.rank() == 0) {
    const double value = name == "lr" ? kRate : 1;  // weights stay about where they are
    fill_floats(t, value, value);
  } else if (name == "weights") {
    const double each = 1 / static_cast<double>(std::max<std::int64_t>(1, type.shape.num_elems()));
    fill_floats(t, each, each);
  } else if (name.starts_with("back:") || name.starts_with("grad:") ||
             find_parameter(name, prepared) != nullptr) {
    fill_floats(t, -kGradient, kGradient);
  } else {
    fill_floats(t, -1, 1);
  }
  return t;
}

Result<Tensor> synthetic_variable(const std::string& name, const TensorType& type,
                                  const prepare::Prepared& prepared) {
  constexpr double kState = 1e-3;
  TR_ASSIGN_OR_RETURN(Tensor t, Tensor::allocate(cpu_device(), type));
  const model::Parameter* const p = find_parameter(name, prepared);
  const auto is_state = [&](const model::StateVariable& s) { return s.name == name; };
  if (!is_float(type.dtype)) {
    fill_integers(t, 2);
  } else if (p != nullptr && p->init != model::InitKind::kConstant && p->bound > 0) {
    const double bound = p->init == model::InitKind::kOrthogonal ? 0.05 : p->bound;
    fill_floats(t, -bound, bound);
  } else if (p != nullptr) {
    fill_floats(t, p->bound, p->bound);
  } else if (std::any_of(prepared.states.begin(), prepared.states.end(), is_state)) {
    fill_floats(t, kState / 2, kState);
  } else {
    fill_floats(t, 0.5, 1);
  }
  return t;
}

}  // namespace trireme::measure
