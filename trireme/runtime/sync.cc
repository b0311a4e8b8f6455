#include "trireme/runtime/sync.h"

namespace trireme::runtime {
namespace {

struct Join {
  explicit Join(Runtime& rt) : all_done(rt) {}
  OneShot<bool> all_done;
  std::vector<Status> results;
  std::size_t left = 0;
};

Task<void> run_one(Task<Status> task, Join& join, std::size_t index) {
  join.results[index] = co_await std::move(task);
  if (--join.left == 0) join.all_done.set(true);
}

}  // namespace

Task<Status> when_all(Runtime& rt, std::vector<Task<Status>> tasks) {
  Join join(rt);
  join.left = tasks.size();
  join.results.resize(tasks.size());
  std::vector<Task<void>> runs;  // after `join`, so that frames destroyed half-way still find it
  for (std::size_t i = 0; i < tasks.size(); ++i) runs.push_back(run_one(std::move(tasks[i]), join, i));
  for (Task<void>& run : runs) run.start();
  if (join.left > 0) co_await join.all_done.wait_until(kForever);
  for (Status& s : join.results)
    if (!s.ok()) co_return s;
  co_return Status();
}

}  // namespace trireme::runtime
