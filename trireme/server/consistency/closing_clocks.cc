#include "trireme/server/consistency/closing_clocks.h"

#include <algorithm>

namespace trireme::server {

OnPush ClosingClocks::on_push(PushId push) {
  if (!clocks_.note(push) || push.clock < open_) return OnPush::kDrop;
  held_[push.clock].insert(push.worker);
  return OnPush::kHold;
}

std::vector<PushId> ClosingClocks::close() {
  std::vector<PushId> pushes;
  for (const int worker : held_[open_]) pushes.push_back({worker, open_});
  held_.erase(open_++);
  return pushes;
}

std::vector<PushId> ClosingClocks::ready() {
  while (!held_.empty()) {
    const auto open = held_.find(open_);
    const int here = open == held_.end() ? 0 : static_cast<int>(open->second.size());
    const int to_come = clocks_.num_behind(open_);
    if (here < std::min(needed_, here + to_come)) return {};
    if (here > 0) return close();
    ++open_;  // everybody jumped over it
  }
  return {};
}

bool ClosingClocks::may_read(int /*worker*/, std::int64_t clock) const {
  return clock <= open_ || !clocks_.is_anybody_there();  // then nothing more will come
}

void ClosingClocks::on_back(int worker, std::int64_t clock) {
  // With the first that is back a new count begins; the others come to it.
  if (!clocks_.is_anybody_there() && held_.empty()) open_ = clock;
  ClockedConsistency::on_back(worker, clock);
}

}  // namespace trireme::server
