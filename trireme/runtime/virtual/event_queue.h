// The event queue of a virtual world: a 4-ary heap of small entries ordered by (time, sequence number), a
// ring for events of the present instant, and the pool that holds callbacks. Internal to runtime/virtual; not
// thread-safe.
//
// An event for the present goes to the ring, never to the heap; so a heap entry of the present instant was
// pushed earlier than everything in the ring and runs first: together they follow (time, sequence) exactly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "trireme/base/function.h"
#include "trireme/base/units.h"
#include "trireme/runtime/runtime.h"

namespace trireme::runtime::virt {

class Node;

// What an event is about; goes into the trace hash.
enum class Label : std::uint8_t {
  kPost,
  kTimer,
  kTask,
  kCompute,
  kSent,
  kClosed,
  kFault,
  kDrain,
  kPoll,
  kStream,
  kProcess
};

enum class EventKind : std::uint32_t { kCallback, kArrive, kDeliver };

// A queued event: a slot of the callback pool or (arrive, deliver) of the world's message pool.
struct EventRef {
  EventKind kind = EventKind::kCallback;
  std::uint32_t index = 0;
};

struct CallbackEvent {
  Callback fn;
  Node* node = nullptr;  // null: belongs to the world, runs whatever becomes of any Runtime
  std::uint32_t generation = 1;
  Label label = Label::kPost;
  bool cancelled = false;
  bool in_heap = false;
};

class EventQueue {
 public:
  TimeNs now() const { return now_; }
  void advance_to(TimeNs when) { now_ = std::max(now_, when); }

  void push(TimeNs when, EventRef ref) {
    if (when <= now_) {
      push_ring(ref);
    } else {
      heap_.push_back({when, next_seq_++, ref});
      sift_up(heap_.size() - 1);
    }
  }

  TimerId push_callback(Node* node, TimeNs when, Label label, Callback fn) {
    const std::uint32_t index = take_slot();
    CallbackEvent& event = callbacks_[index];
    event.fn = std::move(fn);
    event.node = node;
    event.label = label;
    event.in_heap = when > now_;
    push(when, {EventKind::kCallback, index});
    return (static_cast<TimerId>(event.generation) << 32) | (index + 1);
  }

  // Unknown and past ids are ignored.
  void cancel(TimerId id) {
    const std::uint64_t slot = id & 0xFFFFFFFFU;
    if (slot == 0 || slot > callbacks_.size()) return;
    CallbackEvent& event = callbacks_[slot - 1];
    if (event.generation != id >> 32 || event.cancelled) return;
    // Destroyed on the way out, when all is consistent again: what the callback holds may come back here.
    const Callback gone = std::move(event.fn);
    event.cancelled = true;
    if (event.in_heap && ++num_cancelled_ * 2 > heap_.size() + 64) compact();
  }

  // Takes the next event and moves the clock to it; false when there is none up to `limit`.
  bool pop(TimeNs limit, EventRef& out) {
    while (!heap_.empty() && is_cancelled(heap_.front().ref)) drop_cancelled_front();
    const bool present_in_heap = !heap_.empty() && heap_.front().time <= now_;
    if (!present_in_heap && ring_count_ > 0) {
      out = ring_[ring_head_];
      ring_head_ = (ring_head_ + 1) & (ring_.size() - 1);
      --ring_count_;
      return true;
    }
    if (nothing_comes() || heap_.front().time > limit) return false;
    now_ = std::max(now_, heap_.front().time);
    out = heap_.front().ref;
    pop_front();
    if (out.kind == EventKind::kCallback) callbacks_[out.index].in_heap = false;
    return true;
  }

  CallbackEvent& callback(std::uint32_t index) { return callbacks_[index]; }
  bool is_cancelled(EventRef ref) const {
    return ref.kind == EventKind::kCallback && callbacks_[ref.index].cancelled;
  }
  // Empties the slot for reuse and gives its callback.
  Callback release(std::uint32_t index) {
    CallbackEvent& event = callbacks_[index];
    Callback fn = std::move(event.fn);
    if (++event.generation == 0) event.generation = 1;
    event.cancelled = false;
    free_slots_.push_back(index);
    return fn;
  }
  // Nothing will ever happen again; an event at kForever is one that never comes.
  bool idle() const { return ring_count_ == 0 && nothing_comes(); }

  // Destroys every callback without running it. The queue stays usable for calls that destructors make.
  void destroy_callbacks() {
    for (std::size_t i = 0; i < callbacks_.size(); ++i) const Callback gone = std::move(callbacks_[i].fn);
  }

 private:
  struct Entry {
    TimeNs time;
    std::uint64_t seq;
    EventRef ref;
    // Without branches: the order of entries is what no predictor can guess.
    bool before(const Entry& o) const { return ((time < o.time) | ((time == o.time) & (seq < o.seq))) != 0; }
  };

  bool nothing_comes() const { return heap_.empty() || heap_.front().time == kForever; }

  std::uint32_t take_slot() {
    if (free_slots_.empty()) {
      callbacks_.emplace_back();
      return static_cast<std::uint32_t>(callbacks_.size() - 1);
    }
    const std::uint32_t index = free_slots_.back();
    free_slots_.pop_back();
    return index;
  }

  void push_ring(EventRef ref) {
    if (ring_count_ == ring_.size()) {
      std::vector<EventRef> wider(std::max<std::size_t>(64, ring_.size() * 2));
      for (std::size_t i = 0; i < ring_count_; ++i) wider[i] = ring_[(ring_head_ + i) & (ring_.size() - 1)];
      ring_ = std::move(wider);
      ring_head_ = 0;
    }
    ring_[(ring_head_ + ring_count_++) & (ring_.size() - 1)] = ref;
  }

  void sift_up(std::size_t at) {
    const Entry entry = heap_[at];
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!entry.before(heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = entry;
  }

  // Walks the hole down to a leaf along the smallest children, then lifts the entry to its place: an entry
  // from the back of the heap belongs near a leaf, so this compares less than asking at every level.
  void sift_down(std::size_t at) {
    const Entry entry = heap_[at];
    const std::size_t size = heap_.size(), top = at;
    for (std::size_t first = 4 * at + 1; first < size; first = 4 * at + 1) {
      std::size_t best = first;
      const std::size_t last = std::min(first + 4, size);
      for (std::size_t child = first + 1; child < last; ++child)
        best = heap_[child].before(heap_[best]) ? child : best;
      heap_[at] = heap_[best];
      at = best;
    }
    while (at > top) {
      const std::size_t parent = (at - 1) / 4;
      if (!entry.before(heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = entry;
  }

  void pop_front() {
    heap_.front() = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(0);
  }

  void drop_cancelled_front() {
    const std::uint32_t index = heap_.front().ref.index;
    pop_front();
    --num_cancelled_;
    release(index);
  }

  // Deadlines that were met leave cancelled entries far in the future; without this they would pile up.
  void compact() {
    auto keep = heap_.begin();
    for (const Entry& entry : heap_) {
      if (is_cancelled(entry.ref)) {
        release(entry.ref.index);
      } else {
        *keep++ = entry;
      }
    }
    heap_.erase(keep, heap_.end());
    num_cancelled_ = 0;
    for (std::size_t i = heap_.size() / 4 + 1; i-- > 0;)
      if (i < heap_.size()) sift_down(i);
  }

  TimeNs now_ = 0;
  std::uint64_t next_seq_ = 0;
  std::vector<Entry> heap_;
  std::size_t num_cancelled_ = 0;  // of the heap's entries
  std::vector<EventRef> ring_;     // size is a power of two
  std::size_t ring_head_ = 0, ring_count_ = 0;
  std::vector<CallbackEvent> callbacks_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace trireme::runtime::virt
