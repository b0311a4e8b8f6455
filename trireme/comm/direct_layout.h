// What a lane of Direct looks like in the window, and how a vector is cut. docs/format_shm.md is the
// specification. Internal to comm.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace trireme::comm {

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kLaneBytes = std::size_t{4} << 20;
inline constexpr std::size_t kSmallBytes = 2 << 10;
// Laid down by all ranks together for a small call: more is cheaper in two rounds.
inline constexpr std::int64_t kSmallReadBytes = 32 << 10;
inline constexpr std::int64_t kMaxBlockBytes = 256 << 10, kMinBlockBytes = 16 << 10;
inline constexpr std::int64_t kDepth = 8;  // blocks under way
// Blocks go around a ring over all calls, small inputs over places. Both are larger than need be: memory that
// is used again soon is still in the others' caches, and writing it must first take it away from them. The
// ring is larger than a core's own cache.
inline constexpr std::size_t kRingBytes = std::size_t{2} << 20;
inline constexpr std::uint64_t kSmallPlaces = 64;
inline constexpr std::size_t kCallHeaderAt = 0, kLaidAt = 2 * kLine, kSummedAt = 3 * kLine, kSmallAt = 4096;
inline constexpr std::size_t kBlocksAt = kSmallAt + kSmallPlaces * kSmallBytes;
inline constexpr std::size_t kSumsAt = kBlocksAt + kRingBytes;
// A chunk is at most half a block, rounded up to a line.
constexpr std::size_t sum_bytes(std::size_t block_bytes) { return block_bytes / 2 + kLine; }
static_assert(kSumsAt + kRingBytes / kMinBlockBytes * sum_bytes(kMinBlockBytes) <= kLaneBytes);
static_assert(kRingBytes / kMaxBlockBytes >= kDepth);
inline constexpr std::uint64_t kElsewhere = ~std::uint64_t{0};

inline std::int64_t block_bytes_for(std::int64_t bytes) {
  const std::int64_t quarter = (bytes / 4 + 4095) / 4096 * 4096;
  return std::clamp(quarter, kMinBlockBytes, kMaxBlockBytes);
}

// What a rank says before anything else: which call this is. `number` is written last.
struct alignas(kLine) CallHeader {
  std::atomic<std::uint64_t> number;
  std::uint64_t high, low, fingerprint, algorithm_hash;
  std::uint64_t in_at, out_at;  // where in the window the tensors are; kElsewhere: not in it
};

struct LaneMemory {
  std::byte* at;
  CallHeader& header(std::uint64_t number) const {
    return *reinterpret_cast<CallHeader*>(at + kCallHeaderAt + (number % 2) * kLine);
  }
  std::atomic<std::uint64_t>& laid() const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(at + kLaidAt);
  }
  std::atomic<std::uint64_t>& summed() const {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(at + kSummedAt);
  }
  std::byte* small(std::uint64_t number) const {
    return at + kSmallAt + (number % kSmallPlaces) * kSmallBytes;
  }
  std::byte* block(std::uint64_t place, std::uint64_t block_bytes) const {
    return at + kBlocksAt + place * block_bytes;
  }
  std::byte* sum(std::uint64_t place, std::uint64_t block_bytes) const {
    return at + kSumsAt + place * sum_bytes(block_bytes);
  }
};

// The cut of a vector in blocks, and of a block in one chunk per rank. Chunks begin at lines.
struct BlockPartition {
  std::int64_t count, block_elems, line_elems;
  int world;

  BlockPartition(std::int64_t num_elems, std::int64_t elem_bytes, int num_ranks)
      : count(num_elems),
        block_elems(block_bytes_for(num_elems * elem_bytes) / elem_bytes),
        line_elems(static_cast<std::int64_t>(kLine) / elem_bytes),
        world(num_ranks) {}
  std::int64_t num_blocks() const { return (count + block_elems - 1) / block_elems; }
  std::int64_t first(std::int64_t block) const { return block * block_elems; }
  std::int64_t size(std::int64_t block) const { return std::min(block_elems, count - first(block)); }
  // Where the chunk of `rank` begins within the block.
  std::int64_t begin(std::int64_t block, int rank) const {
    const std::int64_t n = size(block), even = (n + world - 1) / world;
    return std::min(n, (even + line_elems - 1) / line_elems * line_elems * rank);
  }
  std::int64_t end(std::int64_t block, int rank) const { return begin(block, rank + 1); }
};

}  // namespace trireme::comm
