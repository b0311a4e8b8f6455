// Bits in order, lowest first, and increasing positions as Rice codes of their gaps (Rice 1979): a gap of
// randomly scattered positions is geometrically distributed, for which these codes are within a few percent
// of the entropy.
#pragma once

#include <algorithm>
#include <bit>

#include "trireme/base/bytes.h"

namespace trireme::codec {

class BitWriter {
 public:
  explicit BitWriter(MutByteView out) : out_(out) {}
  void put(std::uint64_t bits, unsigned count) {  // count <= 32
    held_ |= bits << num_held_;
    num_held_ += count;
    while (num_held_ >= 8) {
      out_[at_++] = static_cast<std::byte>(held_);
      held_ >>= 8;
      num_held_ -= 8;
    }
  }
  std::size_t finish() {
    if (num_held_ > 0) out_[at_++] = static_cast<std::byte>(held_);
    num_held_ = 0;
    return at_;
  }

 private:
  MutByteView out_;
  std::uint64_t held_ = 0;
  unsigned num_held_ = 0;
  std::size_t at_ = 0;
};

class BitReader {
 public:
  explicit BitReader(ByteView in) : in_(in) {}
  // Bits beyond the end are zeros; past_end() tells.
  std::uint64_t take(unsigned count) {  // count <= 32
    fill(count);
    const std::uint64_t bits = held_ & ((std::uint64_t{1} << count) - 1);
    drop(count);
    return bits;
  }
  // Ones before the next zero, which is taken too; at most `most`.
  std::uint64_t take_ones(std::uint64_t most) {
    std::uint64_t ones = 0;
    while (ones <= most && !past_end_) {
      fill(32);
      const auto run = static_cast<unsigned>(std::countr_one(static_cast<std::uint32_t>(held_)));
      if (run < 32) {
        drop(run + 1);
        return ones + run;
      }
      drop(32);
      ones += 32;
    }
    return most + 1;
  }
  bool past_end() const { return past_end_; }
  // Everything was taken but less than a byte of zeros.
  bool at_end() const { return !past_end_ && at_ == in_.size() && num_held_ < 8 && held_ == 0; }

 private:
  void fill(unsigned count) {
    while (num_held_ < count && at_ < in_.size()) {
      held_ |= static_cast<std::uint64_t>(in_[at_++]) << num_held_;
      num_held_ += 8;
    }
  }
  void drop(unsigned count) {
    past_end_ = past_end_ || count > num_held_;
    held_ = count > num_held_ ? 0 : held_ >> count;
    num_held_ -= std::min(num_held_, count);
  }
  ByteView in_;
  std::uint64_t held_ = 0;
  unsigned num_held_ = 0;
  std::size_t at_ = 0;
  bool past_end_ = false;
};

// The parameter for `count` positions below `size`: about the logarithm of the mean gap.
inline unsigned rice_parameter(std::size_t count, std::size_t size) {
  const std::size_t gap = count == 0 ? 0 : size / count;
  return gap < 2 ? 0 : static_cast<unsigned>(std::bit_width(gap * 11 / 16)) - 1;
}
// Each position costs 1 + parameter bits, and all gaps together at most size >> parameter more.
inline std::size_t rice_max_bytes(std::size_t count, std::size_t size) {
  const unsigned p = rice_parameter(count, size);
  return (count * (1 + p) + (size >> p)) / 8 + 1;
}

template <typename Positions>
std::size_t write_positions(const Positions& positions, unsigned parameter, MutByteView out) {
  BitWriter bits(out);
  std::uint64_t next = 0;
  for (const std::uint32_t at : positions) {
    const std::uint64_t gap = at - next, low = gap & ((std::uint64_t{1} << parameter) - 1);
    std::uint64_t ones = gap >> parameter;
    for (; ones >= 32; ones -= 32) bits.put(0xFFFFFFFFU, 32);
    bits.put((std::uint64_t{1} << ones) - 1, static_cast<unsigned>(ones));
    bits.put(0, 1);
    bits.put(low, parameter);
    next = std::uint64_t{at} + 1;
  }
  return bits.finish();
}

// Gives use(i, position) for `count` positions below `size`. False: there are none such, or bytes are left.
template <typename Use>
bool read_positions(ByteView in, unsigned parameter, std::uint32_t count, std::uint64_t size, Use use) {
  if (parameter > 32) return false;
  BitReader bits(in);
  const std::uint64_t most = (size >> parameter) + 1;
  std::uint64_t next = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t ones = bits.take_ones(most);
    if (ones > most) return false;
    const std::uint64_t at = next + (ones << parameter) + bits.take(parameter);
    if (at >= size || bits.past_end()) return false;
    use(i, static_cast<std::size_t>(at));
    next = at + 1;
  }
  return bits.at_end();
}

}  // namespace trireme::codec
