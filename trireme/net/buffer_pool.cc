#include "trireme/net/buffer_pool.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <vector>

namespace trireme::net {
namespace {

constexpr std::align_val_t kAlign{64};
constexpr int kNumClasses = 28;  // powers of two from 64 bytes to 8 GiB; larger ones are not kept
// Kept at most this much per class and pool, so that one burst does not hold memory for ever.
constexpr std::size_t kKeepBytes = 32U << 20;

struct Block {
  Block* next = nullptr;
  int size_class = 0;
  std::byte* data() { return reinterpret_cast<std::byte*>(this) + 64; }
};
static_assert(sizeof(Block) <= 64);

int size_class_of(std::size_t bytes) { return std::max(0, static_cast<int>(std::bit_width(bytes - 1)) - 6); }

Block* new_block(int size_class, std::size_t bytes) {
  const std::size_t total = 64 + (size_class < kNumClasses ? std::size_t{64} << size_class : bytes);
  auto* block = new (::operator new(total, kAlign)) Block;
  block->size_class = size_class;
  return block;
}

void delete_block(Block* block) { ::operator delete(block, kAlign); }

}  // namespace

struct BufferPool::State {
  std::atomic<Block*> returned{nullptr};
  std::array<std::vector<Block*>, kNumClasses> kept;

  ~State() {
    collect();
    for (auto& blocks : kept)
      for (Block* block : blocks) delete_block(block);
  }

  void put_back(Block* block) {
    block->next = returned.load(std::memory_order_relaxed);
    while (!returned.compare_exchange_weak(block->next, block, std::memory_order_release,
                                           std::memory_order_relaxed)) {
    }
  }

  void collect() {
    for (Block* block = returned.exchange(nullptr, std::memory_order_acquire); block != nullptr;) {
      Block* next = block->next;
      if (block->size_class < kNumClasses &&
          (kept[block->size_class].size() << (block->size_class + 6)) < kKeepBytes) {
        kept[block->size_class].push_back(block);
      } else {
        delete_block(block);
      }
      block = next;
    }
  }
};

BufferPool::BufferPool() : state_(std::make_shared<State>()) {}
BufferPool::~BufferPool() = default;

std::shared_ptr<std::byte> BufferPool::take(std::size_t bytes) {
  const int size_class = size_class_of(bytes);
  Block* block = nullptr;
  if (size_class < kNumClasses) {
    auto& kept = state_->kept[size_class];
    if (kept.empty()) state_->collect();
    if (!kept.empty()) {
      block = kept.back();
      kept.pop_back();
    }
  }
  if (block == nullptr) block = new_block(size_class, bytes);
  return {block->data(), [state = state_, block](std::byte*) { state->put_back(block); }};
}

}  // namespace trireme::net
