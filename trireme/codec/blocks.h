// Blocks of 1bit: values that share two means. They follow the tensor's size, so that small tensors, whose
// rows are short, have means of their own for few values; large ones have blocks as long as the cache likes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace trireme::codec {

inline constexpr unsigned kLeastBlockBits = 6, kMostBlockBits = 11;

// log2 of the values of a block, for a tensor of `count` values: about 256 blocks, each a power of two.
inline unsigned block_bits(std::size_t count) {
  constexpr std::size_t kBlocks = 256;
  const auto wanted = static_cast<unsigned>(std::bit_width(count / kBlocks));
  return std::clamp(wanted > 0 ? wanted - 1 : 0, kLeastBlockBits, kMostBlockBits);
}

}  // namespace trireme::codec
