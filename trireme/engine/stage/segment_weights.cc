#include "trireme/engine/stage/segment_weights.h"

#include <algorithm>

namespace trireme::engine {

using runtime::Task;

void SegmentWeights::begin(std::uint32_t step, bool first_batch) {
  step_ = step;
  now_ = 0;
  if (first_batch) {
    number_ = 0;
    waited_ = 0;
  }
  states_.assign(gathers_.num_buckets(), State::kAway);
  ask(prepare::next_use(uses_, 0));
}

void SegmentWeights::ask(std::size_t use) {
  if (use >= uses_.size() || !failure_.ok()) return;
  for (const std::size_t b : uses_[use]) {
    if (states_[b] != State::kAway) continue;
    states_[b] = State::kComing;
    ++under_way_;
    rt_.spawn(bring(b, number_++));
  }
}

Task<void> SegmentWeights::bring(std::size_t bucket, std::uint16_t number) {
  const Status status = co_await gathers_.bring(bucket, {step_, number, of_ == Of::kEvaluations});
  --under_way_;
  states_[bucket] = State::kHere;
  if (!status.ok() && failure_.ok()) failure_ = status;
  if (ended_ != nullptr) ended_->set(true);
}

// All that is under way is of this use or the next one, so a failed one ends the wait too.
Task<Status> SegmentWeights::take() {
  if (uses_[now_].empty()) co_return failure_;
  const TimeNs began = rt_.now();
  const auto is_here = [&] {
    return std::all_of(uses_[now_].begin(), uses_[now_].end(),
                       [&](std::size_t b) { return states_[b] == State::kHere; });
  };
  while (failure_.ok() && !is_here()) co_await wait_for_an_end();
  waited_ += rt_.now() - began;
  ask(prepare::next_use(uses_, now_ + 1));
  co_return failure_;
}

void SegmentWeights::give_back() {
  const std::vector<std::size_t>& own = uses_[now_++];
  if (own.empty() || !failure_.ok()) return;
  const std::size_t next = prepare::next_use(uses_, now_);
  for (const std::size_t b : own) {
    if (next < uses_.size() && std::binary_search(uses_[next].begin(), uses_[next].end(), b)) continue;
    gathers_.give_back(b);
    states_[b] = State::kAway;
  }
}

Task<void> SegmentWeights::wait_for_an_end() {
  ended_ = std::make_unique<runtime::OneShot<bool>>(rt_);
  co_await ended_->wait_until(kForever);  // gathers end with the group's verdict at the latest
  ended_ = nullptr;
}

Task<void> SegmentWeights::drained() {
  while (under_way_ > 0) co_await wait_for_an_end();
}

}  // namespace trireme::engine
