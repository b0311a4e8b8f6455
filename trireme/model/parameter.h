// Parameters of a model as built, and how they start.
//
// Initial values are a pure function of (seed, parameter name, element index); of (seed, name, shape) where
// the initialiser is orthogonal, whose elements depend on each other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "trireme/tensor/shape.h"

namespace trireme::model {

// Says what Parameter::bound is: uniform in [-bound, bound); a standard deviation; the value itself; the gain
// of a matrix with orthonormal rows or columns.
enum class InitKind : std::uint8_t { kUniform, kNormal, kConstant, kOrthogonal };

struct Parameter {
  std::string name;
  TensorType type;
  double bound = 0;  // 0: zeros
  InitKind init = InitKind::kUniform;
};

struct Init {
  InitKind kind = InitKind::kUniform;
  double bound = 0;
};

// How many values a unit reads and how many units read a value.
struct Fans {
  std::int64_t in = 1, out = 1;
};

struct InitRow {
  const char* name;
  const char* doc;
  InitKind kind;
  double (*bound)(Fans fans, double argument);
  bool takes_argument;  // "normal(0.02)"
};
std::span<const InitRow> init_table();

// An initialiser by name, for a tensor of these fans. kInvalid lists the names that exist.
Result<Init> find_init(std::string_view text, Fans fans);

void initialise(const Parameter& parameter, std::uint64_t seed, std::span<float> values);
// Elements from `first` on, of any initialiser but orthogonal: large tensors are made by several threads.
void initialise_part(const Parameter& parameter, std::uint64_t seed, std::size_t first,
                     std::span<float> values);

}  // namespace trireme::model
