// How a kernel cuts its work over the threads it is given: a function of the size and the width, never of
// timing.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "trireme/op/op.h"

namespace trireme::kernel {

// Below this many elements per slice, waking a thread costs more than it saves.
inline constexpr std::int64_t kMinSliceElems = std::int64_t{64} * 1024;

// Slices for `num_items` independent items that touch `elems` elements together.
inline int num_slices(std::int64_t num_items, std::int64_t elems, int width) {
  const std::int64_t useful = std::min<std::int64_t>(elems / kMinSliceElems, num_items);
  return static_cast<int>(std::clamp<std::int64_t>(useful, 1, width));
}

struct SliceRange {
  std::int64_t begin, end;
};
// Slice `index` of `slices` near-equal runs of [0, n).
inline SliceRange slice_range(std::int64_t n, int slices, int index) {
  return {n * index / slices, n * (index + 1) / slices};
}

// Calls fn(begin, end, slice) for exactly `slices` (at most the width) runs of [0, n); runs may be empty.
// The closure handed on holds one pointer, so that std::function does not allocate.
template <typename Fn>
void for_slices(op::Parallel& parallel, std::int64_t n, int slices, const Fn& fn) {
  if (slices <= 1) {
    fn(std::int64_t{0}, n, 0);
    return;
  }
  struct Call {
    const Fn& fn;
    std::int64_t n;
    int slices;
  } call{fn, n, slices};
  parallel.parallel_for(slices, [&call](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t s = first; s < last; ++s) {
      const SliceRange r = slice_range(call.n, call.slices, static_cast<int>(s));
      call.fn(r.begin, r.end, static_cast<int>(s));
    }
  });
}

// Threads among which one is likely to be held up, or slower than the others.
inline constexpr int kManyThreads = 8;

// As for_slices, but item by item: whoever is free takes the next. For items that write apart from each
// other, so that it does not matter to the bits who does them; `slice` says whose memory may be used.
template <typename Fn>
void for_each_dynamic(op::Parallel& parallel, std::int64_t n, int slices, const Fn& fn) {
  if (slices <= 1) {
    for (std::int64_t i = 0; i < n; ++i) fn(i, 0);
    return;
  }
  std::atomic<std::int64_t> next = 0;
  for_slices(parallel, slices, slices, [&](std::int64_t, std::int64_t, int slice) {
    for (std::int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < n;
         i = next.fetch_add(1, std::memory_order_relaxed))
      fn(i, slice);
  });
}

// As for_each_dynamic, but a slice has a run of items of its own, the same in every call, and helps others
// when that is done: what one walk over memory left in a core's cache, the next one finds there. `backwards`
// begins a run with its last item, which was the last to be touched.
template <typename Fn>
void for_each_affine(op::Parallel& parallel, std::int64_t n, int slices, bool backwards, const Fn& fn) {
  constexpr int kMost = 64;
  slices = std::min(slices, kMost);
  struct alignas(64) Next {
    std::atomic<std::int64_t> item = 0;
  };
  std::array<Next, kMost> taken;
  for_slices(parallel, slices, slices, [&](std::int64_t, std::int64_t, int slice) {
    for (int k = 0; k < slices; ++k) {
      const int whose = (slice + k) % slices;
      const SliceRange r = slice_range(n, slices, whose);
      std::atomic<std::int64_t>& next = taken[static_cast<std::size_t>(whose)].item;
      for (std::int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < r.end - r.begin;
           i = next.fetch_add(1, std::memory_order_relaxed))
        fn(backwards ? r.end - 1 - i : r.begin + i, slice);
    }
  });
}

// Elementwise work over n elements; slices begin at multiples of a cache line.
template <typename Fn>
void for_elems(op::Parallel& parallel, std::int64_t n, const Fn& fn) {
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = (n + kLine - 1) / kLine;
  for_slices(parallel, lines, num_slices(lines, n, parallel.width()),
             [&](std::int64_t begin, std::int64_t end, int) {
               const std::int64_t first = begin * kLine;
               const std::int64_t last = std::min(end * kLine, n);
               if (first < last) fn(first, last);
             });
}

}  // namespace trireme::kernel
