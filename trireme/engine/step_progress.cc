#include "trireme/engine/step_progress.h"

#include <algorithm>

#include "trireme/base/check.h"

namespace trireme::engine {

using plan::ActionKind;

StepProgress::StepProgress(plan::StepProgram program, std::size_t sums_at_once)
    : program_(std::move(program)), sums_at_once_(sums_at_once) {
  const auto count = static_cast<std::uint32_t>(program_.actions.size());
  after_.resize(count);
  for (std::uint32_t a = 0; a < count; ++a) {
    for (const std::uint32_t before : program_.deps_of(action(a)))
      if (!is_compute(a)) after_[before].push_back(a);
    if (action(a).kind == ActionKind::kSum) sums_.push_back(a);
    if (is_compute(a)) num_parts_ = std::max(num_parts_, action(a).part + 1);
  }
  done_.assign(count, true);
}

void StepProgress::begin() {
  TR_CHECK(left_ == 0, "a step begins while {} actions of the one before are left", left_);
  done_.assign(program_.actions.size(), false);
  waits_.assign(program_.actions.size(), 0);
  ready_.clear();
  dropped_ = false;
  next_sum_ = sums_under_way_ = under_way_ = 0;
  for (std::uint32_t a = 0; a < waits_.size(); ++a) {
    if (is_compute(a)) continue;
    ++left_;
    waits_[a] = action(a).num_deps;
    if (waits_[a] == 0) ready_.push_back(a);
  }
}

void StepProgress::set_done(std::uint32_t action) {
  if (done_[action]) return;
  done_[action] = true;
  for (const std::uint32_t later : after_[action])
    if (--waits_[later] == 0 && !dropped_) ready_.push_back(later);
}

// Parts of a cell are one after the other in the program, and cells likewise.
void StepProgress::computed(std::size_t cell, std::int32_t part) {
  set_done(static_cast<std::uint32_t>(cell) * static_cast<std::uint32_t>(num_parts_) +
           static_cast<std::uint32_t>(part));
}

void StepProgress::computed_all() {
  for (std::uint32_t a = 0; a < done_.size(); ++a)
    if (is_compute(a)) set_done(a);
}

bool StepProgress::may_begin(std::uint32_t a) const {
  if (action(a).kind != ActionKind::kSum || sums_at_once_ == 0) return true;
  return sums_[next_sum_] == a && sums_under_way_ < sums_at_once_;
}

std::optional<std::uint32_t> StepProgress::next() {
  const auto found =
      std::find_if(ready_.begin(), ready_.end(), [this](std::uint32_t a) { return may_begin(a); });
  if (found == ready_.end()) return std::nullopt;
  const std::uint32_t a = *found;
  ready_.erase(found);
  ++under_way_;
  if (action(a).kind == ActionKind::kSum) ++next_sum_, ++sums_under_way_;
  return a;
}

void StepProgress::ended(std::uint32_t a) {
  --under_way_;
  --left_;
  if (action(a).kind == ActionKind::kSum) --sums_under_way_;
  set_done(a);
}

void StepProgress::drop_waiting() {
  left_ = under_way_;
  ready_.clear();
  dropped_ = true;
}

}  // namespace trireme::engine
