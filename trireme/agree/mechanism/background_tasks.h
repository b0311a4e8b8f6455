// BackgroundTasks: work that a rule has under way while the worker computes. They belong to this object:
// those that have not ended when it goes are destroyed where they wait.
#pragma once

#include <list>
#include <vector>

#include "trireme/runtime/runtime.h"
#include "trireme/runtime/sync.h"

namespace trireme::agree {

class BackgroundTasks {
 public:
  explicit BackgroundTasks(runtime::Runtime& rt) : rt_(rt) {}
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  // Runs `work` up to its first wait; what follows is run by the loop.
  void start(runtime::Task<Status> work);
  // Waits until fewer than `limit` are under way. Returns the first failure of all so far, as soon as there
  // is one: then nobody needs the others any more.
  runtime::Task<Status> wait_below(std::size_t limit);
  runtime::Task<Status> drain() { return wait_below(1); }
  std::size_t under_way() const { return under_way_; }

 private:
  struct Waiter;
  runtime::Task<void> run(runtime::Task<Status> work);

  runtime::Runtime& rt_;
  std::vector<Waiter*> waiters_;
  std::size_t under_way_ = 0;
  Status failure_;
  std::list<runtime::Task<void>> tasks_;  // last: its frames use the rest
};

}  // namespace trireme::agree
