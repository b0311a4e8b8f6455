#include "trireme/server/consistency/worker_clocks.h"

#include <algorithm>

namespace trireme::server {

WorkerClocks::WorkerClocks(int num_workers) : workers_(static_cast<std::size_t>(num_workers)) {}

bool WorkerClocks::note(PushId push) {
  Worker& worker = at(push.worker);
  if (push.clock < worker.done) return false;
  worker.done = push.clock + 1;
  return true;
}

bool WorkerClocks::is_anybody_there() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.there; });
}

int WorkerClocks::num_behind(std::int64_t clock) const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [&](const Worker& w) { return w.there && w.done <= clock; }));
}

std::int64_t WorkerClocks::oldest() const {
  std::int64_t oldest = INT64_MAX, newest = 0;
  for (const Worker& w : workers_) {
    newest = std::max(newest, w.done);
    if (w.there) oldest = std::min(oldest, w.done);
  }
  return is_anybody_there() ? oldest : newest;
}

}  // namespace trireme::server
