// A priority queue for times that never go back (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the
// shortest path problem", JACM 1990). Internal to runtime/virtual; not thread-safe.
//
// Bucket b > 0 holds the entries whose highest bit that differs from `last_`, the time of the last pop, is
// bit b - 1; bucket 0 those of that very time. All entries of a bucket come before all of the next one, and
// moving a bucket down when the ones below are empty keeps the order of entries of equal times: first pushed,
// first popped. Entries move in runs of memory, so a million of them in flight cost no more per event than a
// thousand.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "trireme/base/units.h"

namespace trireme::runtime::virt {

template <typename Value>
class RadixHeap {
 public:
  std::size_t size() const { return size_; }

  // `time` is after the last pop's.
  void push(TimeNs time, const Value& value) {
    const unsigned bucket = bucket_of(time);
    buckets_[bucket].push_back({time, value});
    used_ |= std::uint64_t{1} << bucket;
    ++size_;
    at_least_ = std::min(at_least_, time);
  }

  // No entry is earlier. Cheap.
  TimeNs at_least() const { return at_least_; }

  // The time of the earliest entry, kForever without one (or where it is the earliest). On the way entries
  // for which forgotten(value) is true go.
  template <typename Forgotten>
  TimeNs earliest(Forgotten forgotten) {
    std::vector<Entry>& present = buckets_[0];
    while (head_ < present.size() && forgotten(present[head_].value)) drop_head();
    if (head_ < present.size()) return at_least_ = last_;
    while (size_ > 0) {
      const auto lowest = static_cast<unsigned>(std::countr_zero(used_));
      const TimeNs least = filter(lowest, forgotten);
      if (!buckets_[lowest].empty()) return at_least_ = least;
      used_ &= ~(std::uint64_t{1} << lowest);
    }
    return at_least_ = kForever;
  }

  // Takes the entry that earliest() found: nothing was pushed or forgotten since.
  Value pop() {
    if (buckets_[0].empty()) settle();
    const Value value = buckets_[0][head_].value;
    drop_head();
    return value;
  }

  // Takes out every entry for which forgotten(value) is true.
  template <typename Forgotten>
  void forget(Forgotten forgotten) {
    buckets_[0].erase(buckets_[0].begin(), buckets_[0].begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
    for (unsigned b = 0; b < buckets_.size(); ++b) {
      filter(b, forgotten);
      if (buckets_[b].empty()) used_ &= ~(std::uint64_t{1} << b);
    }
  }

 private:
  struct Entry {
    TimeNs time;
    Value value;
  };

  unsigned bucket_of(TimeNs time) const {
    return static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(time ^ last_)));
  }

  void drop_head() {
    --size_;
    if (++head_ < buckets_[0].size()) return;
    buckets_[0].clear();
    head_ = 0;
    used_ &= ~std::uint64_t{1};
  }

  // Keeps what is not forgotten, in order; the least time of it.
  template <typename Forgotten>
  TimeNs filter(unsigned bucket, Forgotten& forgotten) {
    std::vector<Entry>& entries = buckets_[bucket];
    TimeNs least = kForever;
    auto keep = entries.begin();
    for (Entry& entry : entries) {
      if (forgotten(entry.value)) continue;
      least = std::min(least, entry.time);
      *keep++ = entry;
    }
    size_ -= static_cast<std::size_t>(entries.end() - keep);
    entries.erase(keep, entries.end());
    return least;
  }

  // The lowest bucket, which has the earliest entry, goes down.
  void settle() {
    const auto lowest = static_cast<unsigned>(std::countr_zero(used_));
    last_ = at_least_;
    moving_.swap(buckets_[lowest]);
    used_ &= ~(std::uint64_t{1} << lowest);
    for (const Entry& entry : moving_) {
      const unsigned bucket = bucket_of(entry.time);
      buckets_[bucket].push_back(entry);
      used_ |= std::uint64_t{1} << bucket;
    }
    moving_.clear();
  }

  std::array<std::vector<Entry>, 64> buckets_;  // times are below 2^63
  std::vector<Entry> moving_;
  std::uint64_t used_ = 0;  // a bit per bucket that may have entries
  std::size_t head_ = 0;    // of bucket 0
  std::size_t size_ = 0;
  TimeNs last_ = 0;
  TimeNs at_least_ = kForever;
};

}  // namespace trireme::runtime::virt
