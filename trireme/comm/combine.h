// How two vectors of a type are combined, element by element, by a reduction.
//
// 16-bit floats are added in f32 and rounded once per addition (what travels is 16 bits wide, so sums over P
// ranks are rounded up to P - 1 times); the mean is divided in f32 (f64 for f64) and rounded once more. Max
// and min give NaN when either is NaN. Integers wrap. Of booleans max is "or" and min is "and"; sums and
// means of booleans, and means of integers, are refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/collective/schedule.h"
#include "trireme/tensor/dtype.h"

namespace trireme::comm {

struct Combine {
  // dst = dst op src, or src op dst when `src_left`. The two do not overlap.
  void (*apply)(std::byte* dst, const std::byte* src, std::int64_t count, bool src_left) = nullptr;
  // out = left op right, and the same to `also` unless it is null. Results may be operands (at the same
  // index), but overlap in no other way.
  void (*merge)(std::byte* out, std::byte* also, const std::byte* left, const std::byte* right,
                std::int64_t count) = nullptr;
  // dst = dst / world; null: no such type.
  void (*scale)(std::byte* dst, std::int64_t count, int world) = nullptr;
};
Result<Combine> find_combine(DType dtype, collective::Reduction reduction);

}  // namespace trireme::comm
