#include "trireme/server/kept_slice.h"

#include <algorithm>

namespace trireme::server {

bool KeptSlice::holds_of(int worker) const {
  return std::any_of(held.begin(), held.end(), [&](const auto& h) { return h.first.worker == worker; });
}

ServerAnswer KeptSlice::answer_now() const {
  ServerAnswer answer;
  answer.updates = updates;
  answer.oldest_clock = policy->oldest_clock();
  return answer;
}

void KeptSlice::enqueue(Batch batch) {
  if (batch.is_init && !are_first_values_here) {
    are_first_values_here = true;
    queue.push_front(std::move(batch));
    return;
  }
  queue.push_back(std::move(batch));
  ++num_queued;
}

bool KeptSlice::look_at_pulls() {
  bool some_due = false;
  for (Pull& pull : pulls) {
    if (pull.after < 0 && policy->may_read(pull.question.peer, pull.clock)) pull.after = num_queued;
    some_due |= is_due(pull);
  }
  return some_due;
}

std::vector<Pull> KeptSlice::take_due_pulls() {
  std::vector<Pull> due, rest;
  for (Pull& pull : pulls) (is_due(pull) ? due : rest).push_back(std::move(pull));
  pulls = std::move(rest);
  return due;
}

}  // namespace trireme::server
