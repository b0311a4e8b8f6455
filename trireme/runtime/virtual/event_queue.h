// The event queue of a virtual world: a radix heap of entries to come, a ring for events of the present
// instant, and the pool that holds callbacks. Internal to runtime/virtual; not thread-safe.
//
// An event for the present goes to the ring, never to the heap; so a heap entry of the present instant was
// pushed earlier than everything in the ring and runs first: together they follow (time, order of the calls)
// exactly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "trireme/base/function.h"
#include "trireme/base/units.h"
#include "trireme/runtime/runtime.h"
#include "trireme/runtime/virtual/radix_heap.h"

namespace trireme::runtime::virt {

class VirtualNode;

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
  VirtualNode* node = nullptr;  // null: belongs to the world, runs whatever becomes of any Runtime
  std::uint32_t generation = 1;
  Label label = Label::kPost;
  bool cancelled = false;
  bool in_heap = false;
};

class EventQueue {
  // Tells the heap which entries to forget, and frees their slots.
  struct Cancelled {
    EventQueue& queue;
    bool operator()(EventRef ref) const {
      if (queue.num_cancelled_ == 0 || !queue.is_cancelled(ref)) return false;
      --queue.num_cancelled_;
      queue.release(ref.index);
      return true;
    }
  };

 public:
  TimeNs now() const { return now_; }
  void advance_to(TimeNs when) { now_ = std::max(now_, when); }

  void push(TimeNs when, EventRef ref) {
    if (when <= now_)
      push_ring(ref);
    else
      heap_.push(when, ref);
  }

  TimerId push_callback(VirtualNode* node, TimeNs when, Label label, Callback fn) {
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
    // Deadlines that were met leave cancelled entries far in the future; without this they would pile up.
    if (event.in_heap && ++num_cancelled_ * 2 > heap_.size() + 64) heap_.forget(Cancelled{*this});
  }

  // Takes the next event and moves the clock to it; false when there is none up to `limit`.
  bool pop(TimeNs limit, EventRef& out) {
    if (ring_count_ > 0 && heap_.at_least() > now_) return pop_ring(out);
    const TimeNs next = heap_.earliest(Cancelled{*this});
    if (ring_count_ > 0 && next > now_) return pop_ring(out);
    if (next == kForever || next > limit) return false;
    now_ = std::max(now_, next);
    out = heap_.pop();
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
  bool idle() { return ring_count_ == 0 && heap_.earliest(Cancelled{*this}) == kForever; }

  // Destroys every callback without running it. The queue stays usable for calls that destructors make.
  void destroy_callbacks() {
    for (std::size_t i = 0; i < callbacks_.size(); ++i) const Callback gone = std::move(callbacks_[i].fn);
  }

 private:
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

  bool pop_ring(EventRef& out) {
    out = ring_[ring_head_];
    ring_head_ = (ring_head_ + 1) & (ring_.size() - 1);
    --ring_count_;
    return true;
  }

  TimeNs now_ = 0;
  RadixHeap<EventRef> heap_;
  std::size_t num_cancelled_ = 0;  // of the heap's entries
  std::vector<EventRef> ring_;     // size is a power of two
  std::size_t ring_head_ = 0, ring_count_ = 0;
  std::vector<CallbackEvent> callbacks_;
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace trireme::runtime::virt
