#include "trireme/engine/vote/votes.h"

#include <algorithm>
#include <utility>

namespace trireme::engine {

using runtime::Task;

Votes::Votes(runtime::Runtime& rt, const Make& make, int lag) : rt_(rt) {
  for (int i = 0; i <= std::min(lag, plan::kMostVotes - 1); ++i) votes_.push_back(make(plan::vote_slot(i)));
  known_.assign(votes_.size(), false);
}

Vote& Votes::of(std::int64_t step) const { return *votes_[static_cast<std::size_t>(step) % votes_.size()]; }

Status Votes::take_shards(collective::LeafRun run) {
  for (const auto& vote : votes_) TR_RETURN_IF_ERROR(vote->take_shards(run));
  return {};
}

Task<Status> Votes::cast(StepInput step, std::vector<collective::LeafRun> owners) {
  if (!lag()) co_return co_await of(step.step).cast(std::move(step), std::move(owners));
  if (cast_ < 0) told_ = step.step - 1;
  cast_ = step.step;
  known_[static_cast<std::size_t>(step.step) % votes_.size()] = false;
  ++under_way_;
  rt_.spawn(run(std::move(step), std::move(owners)));
  co_return Status();
}

Task<void> Votes::run(StepInput step, std::vector<collective::LeafRun> owners) {
  const std::size_t at = static_cast<std::size_t>(step.step) % votes_.size();
  const Status status = co_await votes_[at]->cast(std::move(step), std::move(owners));
  known_[at] = true;
  if (!status.ok() && failure_.ok()) failure_ = status;
  --under_way_;
  if (ended_ != nullptr) ended_->set(true);
}

Task<void> Votes::wait_for_an_end() {
  ended_ = std::make_unique<runtime::OneShot<bool>>(rt_);
  co_await ended_->wait_until(kForever);  // votes end with the group's verdict at the latest
  ended_ = nullptr;
}

Task<Status> Votes::wait_until(std::int64_t last, std::vector<StepResult>& results) {
  while (failure_.ok() && told_ < std::min(last, cast_)) {
    const std::int64_t step = told_ + 1;
    if (!known_[static_cast<std::size_t>(step) % votes_.size()]) {
      co_await wait_for_an_end();
      continue;
    }
    const VoteOutcome& outcome = of(step).outcome();
    results.push_back({step, outcome.loss, outcome.correct, outcome.stop, outcome.save});
    told_ = step;
  }
  co_return failure_;
}

Task<Status> Votes::wait_behind(std::int64_t step, std::vector<StepResult>& results) {
  co_return co_await wait_until(step + 1 - static_cast<std::int64_t>(votes_.size()), results);
}

Task<Status> Votes::wait_for_all(std::vector<StepResult>& results) {
  co_return co_await wait_until(cast_, results);
}

Task<void> Votes::drained() {
  while (under_way_ > 0) co_await wait_for_an_end();
}

}  // namespace trireme::engine
