// ssp: updates are made as they come; a worker that is about to compute clock c reads once every worker's
// updates of clocks below c - s are in, so that the fastest is at most s clocks ahead of the slowest (Ho et
// al. 2013, section 3). With s = 0 nobody reads between two updates of one clock, so they are made as one, in
// the order of the workers: that is bsp, to the bit.
#include <algorithm>
#include <map>

#include "trireme/server/consistency/consistency.h"
#include "trireme/server/consistency/worker_clocks.h"

namespace trireme::server {
namespace {

class Ssp final : public ClockedConsistency {
 public:
  explicit Ssp(const ConsistencyOptions& options)
      : ClockedConsistency(options.num_workers), bound_(options.staleness) {}

  OnPush on_push(PushId push) override {
    if (!clocks_.note(push)) return OnPush::kDrop;
    if (bound_ > 0) return OnPush::kApply;
    held_[push.clock].push_back(push);
    return OnPush::kHold;
  }

  std::vector<PushId> ready() override {
    if (held_.empty() || clocks_.num_behind(held_.begin()->first) > 0) return {};
    std::vector<PushId> pushes = std::move(held_.begin()->second);
    held_.erase(held_.begin());
    std::sort(pushes.begin(), pushes.end());
    return pushes;
  }

  bool may_read(int /*worker*/, std::int64_t clock) const override {
    return clocks_.oldest() >= clock - bound_ || !clocks_.is_anybody_there();
  }

 private:
  const std::int64_t bound_;
  std::map<std::int64_t, std::vector<PushId>> held_;
};

}  // namespace

std::unique_ptr<Consistency> make_ssp(const ConsistencyOptions& options) {
  return std::make_unique<Ssp>(options);
}

}  // namespace trireme::server
