#include "trireme/runtime/sync.h"

namespace trireme::runtime {
namespace {

struct Join {
  explicit Join(Runtime& rt) : all_done(rt) {}
  OneShot<bool> all_done;
  std::vector<Status> results;
  std::size_t left = 0;
};

Task<void> run_one(Task<Status> task, std::shared_ptr<Join> join, std::size_t index) {
  join->results[index] = co_await std::move(task);
  if (--join->left == 0) join->all_done.set(true);
}

}  // namespace

Task<Status> when_all(Runtime& rt, std::vector<Task<Status>> tasks) {
  auto join = std::make_shared<Join>(rt);
  join->left = tasks.size();
  join->results.resize(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) rt.spawn(run_one(std::move(tasks[i]), join, i));
  if (!tasks.empty()) co_await join->all_done.wait_until(kForever);
  for (Status& s : join->results)
    if (!s.ok()) co_return s;
  co_return Status();
}

}  // namespace trireme::runtime
