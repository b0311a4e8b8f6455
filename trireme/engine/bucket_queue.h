// BucketQueue: which exchange of a step starts next. On the loop of one rank; starts nothing itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trireme::engine {

// Exchanges start in one order that all ranks share, at most `at_once` together: the first one that has not
// ended is under way or next on every rank, so nobody waits for an exchange that another rank holds back.
class BucketQueue {
 public:
  // No order: buckets start when they are ready, any number at once.
  BucketQueue(std::span<const std::int32_t> order, std::size_t num_buckets, std::size_t at_once)
      : order_(order.begin(), order.end()), ready_(num_buckets, false), at_once_(at_once) {}

  void add(std::size_t bucket) {
    ++left_;
    if (order_.empty())
      arrived_.push_back(bucket);
    else
      ready_[bucket] = true;
  }
  // To be started now; nullopt: nothing may.
  std::optional<std::size_t> next() {
    std::size_t bucket;
    if (order_.empty()) {
      if (position_ == arrived_.size()) return std::nullopt;
      bucket = arrived_[position_];
    } else {
      bucket = static_cast<std::size_t>(order_[position_ % order_.size()]);
      if (!ready_[bucket] || running_ == at_once_) return std::nullopt;
      ready_[bucket] = false;
    }
    ++position_;
    ++running_;
    return bucket;
  }
  void ended() {
    --running_;
    if (--left_ > 0) return;
    if (order_.empty()) arrived_.clear(), position_ = 0;
  }
  // Those that wait will never start; the order begins anew.
  void drop_waiting() {
    left_ = running_;
    position_ = 0;
    arrived_.clear();
    ready_.assign(ready_.size(), false);
  }
  std::size_t running() const { return running_; }
  bool empty() const { return left_ == 0; }  // nothing waits and nothing is under way

 private:
  std::vector<std::int32_t> order_;
  std::vector<std::size_t> arrived_;
  std::vector<bool> ready_;
  std::size_t at_once_, position_ = 0, running_ = 0, left_ = 0;
};

}  // namespace trireme::engine
