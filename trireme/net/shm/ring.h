// One-producer one-consumer byte rings in shared memory. Each side keeps its own position privately and
// believes the other's only after checking it, so a corrupt or hostile peer cannot make this side touch
// memory outside the ring.
#pragma once

#include <algorithm>
#include <cstring>

#include "trireme/net/shm/layout.h"

namespace trireme::net::shm {

class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(RingHeader* header, std::byte* data, std::size_t capacity)
      : header_(header), data_(data), capacity_(capacity) {}

  // Bytes that may be written; a multiple of kAlign. False: the consumer's position makes no sense.
  bool free_bytes(std::uint64_t& free) const {
    const std::uint64_t used = tail_ - header_->head.load(std::memory_order_acquire);
    if (used > capacity_ || used % kAlign != 0) return false;
    free = capacity_ - used;
    return true;
  }
  // Precondition: round_up(bytes) <= free_bytes.
  void write(const void* from, std::size_t bytes) {
    const std::size_t at = tail_ & (capacity_ - 1);
    const std::size_t first = std::min(bytes, capacity_ - at);
    std::memcpy(data_ + at, from, first);
    std::memcpy(data_, static_cast<const std::byte*>(from) + first, bytes - first);
    tail_ += round_up(bytes);
  }
  void publish() { header_->tail.store(tail_, std::memory_order_release); }
  std::uint64_t written() const { return tail_; }  // since the start
  std::uint64_t capacity() const { return capacity_; }
  // Asks for a ring of the bell. The caller must look at free_bytes once more afterwards: the flag and the
  // consumer's position are ordered by sequential consistency on both sides, so one of the two sees the
  // other.
  void ask_for_bell() {
    header_->producer_waits.store(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

 private:
  RingHeader* header_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::uint64_t tail_ = 0;
};

class RingReader {
 public:
  RingReader() = default;
  RingReader(RingHeader* header, const std::byte* data, std::size_t capacity)
      : header_(header), data_(data), capacity_(capacity) {}

  // Bytes that may be read; a multiple of kAlign. False: the producer's position makes no sense.
  bool available(std::uint64_t& bytes) const {
    bytes = header_->tail.load(std::memory_order_acquire) - head_;
    return bytes <= capacity_ && bytes % kAlign == 0;
  }
  // Copies and consumes; into == nullptr skips. Precondition: round_up(bytes) <= available.
  void read(void* into, std::size_t bytes) {
    if (into != nullptr) {
      const std::size_t at = head_ & (capacity_ - 1);
      const std::size_t first = std::min(bytes, capacity_ - at);
      std::memcpy(into, data_ + at, first);
      std::memcpy(static_cast<std::byte*>(into) + first, data_, bytes - first);
    }
    head_ += round_up(bytes);
  }
  std::uint64_t consumed() const { return head_; }  // since the start
  // Gives the space back; true when the producer waits for it.
  bool release() {
    header_->head.store(head_, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return header_->producer_waits.load(std::memory_order_relaxed) != 0 &&
           header_->producer_waits.exchange(0, std::memory_order_seq_cst) != 0;
  }

 private:
  RingHeader* header_ = nullptr;
  const std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::uint64_t head_ = 0;
};

}  // namespace trireme::net::shm
