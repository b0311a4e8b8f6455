// Reads runs of elements, in row-major order of a loop shape, from a strided tensor that broadcasts to it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "trireme/tensor/walk.h"

namespace trireme::op::detail {

class BlockReader {
 public:
  BlockReader() = default;
  BlockReader(const Tensor& t, const Shape& loop)
      : BlockReader(broadcast_strides(t, loop), t.dtype(), loop) {}
  BlockReader(const Strides& strides, DType dtype, const Shape& loop) : elem_bytes_(dtype_size(dtype)) {
    for (int d = 0; d < loop.rank(); ++d) {
      const std::int64_t size = loop[d], step = strides[static_cast<std::size_t>(d)];
      if (size == 1) continue;
      const auto last = static_cast<std::size_t>(rank_ - 1);
      if (rank_ > 0 && steps_[last] == step * size) {
        dims_[last] *= size;
        steps_[last] = step;
      } else {
        dims_[static_cast<std::size_t>(rank_)] = size;
        steps_[static_cast<std::size_t>(rank_++)] = step;
      }
    }
    if (rank_ == 0) dims_[0] = 1, steps_[0] = 1, rank_ = 1;
  }

  // The elements lie one after another: no copy is needed.
  bool is_contiguous() const { return rank_ == 1 && (steps_[0] == 1 || dims_[0] == 1); }
  bool is_one_element() const { return rank_ == 1 && steps_[0] == 0; }
  // Runs of `n` elements from multiples of n on are all the same.
  bool repeats_every(std::int64_t n) const {
    return is_one_element() || (rank_ == 2 && steps_[0] == 0 && n % dims_[1] == 0);
  }

  // Elements begin ... begin+n-1 of the loop to `to`.
  void read(const std::byte* base, std::int64_t begin, std::int64_t n, std::byte* to) const {
    switch (elem_bytes_) {
      case 1:
        return read_as<std::uint8_t>(base, begin, n, to);
      case 2:
        return read_as<std::uint16_t>(base, begin, n, to);
      case 4:
        return read_as<std::uint32_t>(base, begin, n, to);
      default:
        return read_as<std::uint64_t>(base, begin, n, to);
    }
  }

 private:
  template <typename T>
  void read_as(const std::byte* base, std::int64_t begin, std::int64_t n, std::byte* to) const {
    const T* from = reinterpret_cast<const T*>(base);
    T* out = reinterpret_cast<T*>(to);
    const auto inner = static_cast<std::size_t>(rank_ - 1);
    const std::int64_t step = steps_[inner];
    while (n > 0) {
      const std::int64_t at = begin % dims_[inner], run = std::min(n, dims_[inner] - at);
      const T* p = from + offset_of_row(begin / dims_[inner]) + at * step;
      if (step == 1) {
        std::memcpy(out, p, static_cast<std::size_t>(run) * sizeof(T));
      } else if (step == 0) {
        std::fill(out, out + run, *p);
      } else {
        for (std::int64_t i = 0; i < run; ++i) out[i] = p[i * step];
      }
      out += run;
      begin += run;
      n -= run;
    }
  }

  std::int64_t offset_of_row(std::int64_t row) const {
    std::int64_t offset = 0;
    for (int d = rank_ - 2; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      offset += row % dims_[i] * steps_[i];
      row /= dims_[i];
    }
    return offset;
  }

  std::size_t elem_bytes_ = 4;
  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> dims_{}, steps_{};  // merged, outermost first; steps in elements
};

}  // namespace trireme::op::detail
