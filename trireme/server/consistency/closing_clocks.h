// ClosingClocks: pushes of one clock become one update, made as soon as enough of them are in. bsp waits for
// all, late for a share.
//
// Vocabulary. A clock is *open* while it gathers pushes; one is open at a time, the earlier ones are closed
// and their updates made. A clock closes when `needed` pushes are in, or all that can still come. A worker
// reads for clock c once c is open: then every earlier update is in. What comes for a closed clock is
// dropped.
#pragma once

#include <map>
#include <set>

#include "trireme/server/consistency/worker_clocks.h"

namespace trireme::server {

class ClosingClocks final : public ClockedConsistency {
 public:
  ClosingClocks(int num_workers, int needed) : ClockedConsistency(num_workers), needed_(needed) {}

  OnPush on_push(PushId push) override;
  std::vector<PushId> ready() override;
  bool may_read(int worker, std::int64_t clock) const override;
  // Here: the open clock. Who comes late goes on with it.
  std::int64_t oldest_clock() const override { return open_; }
  void on_back(int worker, std::int64_t clock) override;

 private:
  std::vector<PushId> close();

  const int needed_;
  std::int64_t open_ = 0;
  std::map<std::int64_t, std::set<int>> held_;  // clock -> workers, added in their order
};

}  // namespace trireme::server
