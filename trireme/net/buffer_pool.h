// BufferPool: recycled payload buffers that one loop fills and any thread may let go.
//
// Only the owner takes; whoever drops the last reference pushes the buffer on a lock-free stack, which the
// owner empties as a whole (one exchange), so there is no ABA problem. Buffers in flight keep the pool alive.
#pragma once

#include <cstddef>
#include <memory>

namespace trireme::net {

class BufferPool {
 public:
  BufferPool();
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes` of uninitialised memory, 64-byte aligned. Owner's loop only. bytes >= 1.
  std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::net
