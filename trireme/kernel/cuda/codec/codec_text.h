// The kernels behind MessageCoder, as texts. Internal to codec*.cc.
#pragma once

#include <string>

#include "trireme/kernel/cuda/cuda.h"

namespace trireme::kernel::cuda {

// Elements that a block, or with 1-bit a warp, works on at a time; never of two pieces. 1-bit has means of
// so many.
inline constexpr int kTileElems = 2048;
// Top-k counts in larger parts.
inline constexpr int kChunkElems = 16384;

// A piece as kernels have it: all pieces, coded ones first, then plain ones.
struct PieceRow {
  std::int64_t offset, count, place, plain;
  std::int64_t tile;   // number of its first tile
  std::int64_t chunk;  // top-k: of its first chunk
  std::int64_t kept, rice;
  std::int64_t first;  // top-k: where its chosen values and positions begin among all
  std::int64_t bits;   // top-k: where the words of its positions begin
  std::int64_t words;  // top-k: how many they are
};

// encode_message, sum_messages (and for top-k of plain pieces alone), update_velocity, mask_velocity.
std::string message_text(Encoding encoding, int num_messages, std::span<const Addition> additions);

}  // namespace trireme::kernel::cuda
