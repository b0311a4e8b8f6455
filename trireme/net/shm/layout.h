// The bytes that ranks share: docs/format_shm.md is the specification, this header its transcription.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace trireme::net::shm {

inline constexpr std::uint64_t kSegmentMagic = 0x314D'4853'4952'5254ULL;  // "TRRISHM1" in memory order
inline constexpr std::uint64_t kHelloMagic = 0x314F'4C48'4952'5254ULL;    // "TRRIHLO1"
inline constexpr std::uint32_t kFrameMagic = 0x4D52'4654;                 // "TFRM"
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::size_t kAlign = 64, kPage = 4096;
inline constexpr std::size_t kControlRingBytes = 16 * 1024;
// The window that is there from the start: the first part of the window area.
inline constexpr std::size_t kExchangeBytes = std::size_t{256} << 20;

constexpr std::uint64_t round_up(std::uint64_t bytes) {
  return (bytes + kAlign - 1) & ~std::uint64_t{kAlign - 1};
}

// First page of an exchange segment.
struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version, world, rank, epoch;
  std::uint64_t ring_bytes, control_bytes, window_bytes;
};
static_assert(sizeof(SegmentHeader) == 48);

// Positions count bytes since the start and never wrap; each is written by one side only.
struct RingHeader {
  alignas(kAlign) std::atomic<std::uint64_t> tail;            // producer: bytes published
  alignas(kAlign) std::atomic<std::uint64_t> head;            // consumer: bytes consumed
  alignas(kAlign) std::atomic<std::uint32_t> producer_waits;  // 1: ring the producer when space is free
};
static_assert(sizeof(RingHeader) == 192 && std::atomic<std::uint64_t>::is_always_lock_free);

enum class RingFrameType : std::uint32_t { kData = 0, kControl = 1 };

struct RingFrameHeader {
  std::uint32_t magic;
  RingFrameType type;
  std::uint64_t high, low;  // identity
  std::uint64_t fingerprint;
  std::uint64_t bytes;    // of the message
  std::uint32_t phantom;  // 1: no payload follows
  std::uint32_t zero;
  std::uint64_t reserved[2];
};
static_assert(sizeof(RingFrameHeader) == kAlign);

// One block per sending rank: a page with both ring headers, the data ring, the control ring.
constexpr std::size_t block_bytes(std::size_t ring_bytes) { return kPage + ring_bytes + kControlRingBytes; }
// Where the window area begins: after the blocks.
constexpr std::size_t window_offset(int world, std::size_t ring_bytes) {
  return kPage + static_cast<std::size_t>(world) * block_bytes(ring_bytes);
}
constexpr std::size_t segment_bytes(int world, std::size_t ring_bytes, std::size_t window_bytes) {
  return window_offset(world, ring_bytes) + window_bytes;
}

struct Block {
  RingHeader* data_header;
  std::byte* data;
  RingHeader* control_header;
  std::byte* control;
};
inline Block block_of(std::byte* segment, int sender, std::size_t ring_bytes) {
  std::byte* at = segment + kPage + static_cast<std::size_t>(sender) * block_bytes(ring_bytes);
  return {reinterpret_cast<RingHeader*>(at), at + kPage,
          reinterpret_cast<RingHeader*>(at + sizeof(RingHeader)), at + kPage + ring_bytes};
}

// What both ends of a connection say first.
struct Hello {
  std::uint64_t magic;
  std::uint32_t version, world, rank, epoch;
  std::uint64_t ring_bytes, window_bytes;
};
static_assert(sizeof(Hello) == 40);

}  // namespace trireme::net::shm
